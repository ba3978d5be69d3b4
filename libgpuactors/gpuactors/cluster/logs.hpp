// Reading what the tasks and actors of a cluster print.
#pragma once

#include <gpuactors/agent/log_line.hpp>
#include <gpuactors/base/ids.hpp>
#include <gpuactors/base/limits.hpp>

#include <functional>
#include <stop_token>
#include <string>

namespace gpuactors {

/// A line that a worker process wrote.
struct LogRecord {
  /// When its node read the line, by the node's clock, in microseconds.
  LogTime time;
  std::string node;
  /// The actor's name, or its type if it has none; "task NAME" for a task; the purpose of the worker, such as "device
  /// 0", if several actors run in it and the line cannot be attributed; "log" for messages about the log itself.
  std::string source;
  /// The actor, if the line is an actor's.
  ActorId actor;
  OutputStream stream = OutputStream::out;
  std::string text;
};

/// Selects the lines for `Cluster::logs`.
struct LogsOptions {
  /// Only lines of this node; without an actor, all its lines. Needed for the lines of an actor that has ended.
  std::string node{};
  /// How many past lines to read, the latest ones; at most `limits::log_tail_lines`.
  std::size_t count = limits::log_shown_lines;
  /// Continue with new lines.
  bool follow = false;
  /// Ends the call when a stop is requested.
  std::stop_token stop{};
};

/// Takes a line and returns whether to continue. Called on the thread that called `Cluster::logs`.
using LogSink = std::function<bool(const LogRecord&)>;

} // namespace gpuactors
