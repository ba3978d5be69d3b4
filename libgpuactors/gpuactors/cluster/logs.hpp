// What the tasks and actors of a cluster print, as programs read it.
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
  /// When its node read it, by the clock of that node, to the microsecond.
  LogTime time;
  std::string node;
  /// The actor's name, or its type if it has none; "task NAME" for a task; what the worker is for, such as "device 0",
  /// where several run in it and the line does not say whose it is; "log" for what is to be known about the log.
  std::string source;
  /// The actor, if the line is one's.
  ActorId actor;
  OutputStream stream = OutputStream::out;
  std::string text;
};

/// Which lines `Cluster::logs` gives.
struct LogsOptions {
  /// The one that the actor's name is in.
  std::string name_space{};
  /// Of this node only; without an actor, all of the node. Where an actor has ended, its lines are here.
  std::string node{};
  /// How many of the lines that are there, the last ones; `limits::log_tail_lines` at most.
  std::size_t count = limits::log_shown_lines;
  /// Go on with those that come.
  bool follow = false;
  /// Ends it, when somebody asks for that.
  std::stop_token stop{};
};

/// Takes a line; false when it wants no more. On the thread that called `Cluster::logs`.
using LogSink = std::function<bool(const LogRecord&)>;

} // namespace gpuactors
