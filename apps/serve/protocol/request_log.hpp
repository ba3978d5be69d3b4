// RequestLog: a line of JSON for each request, in a file, written beside the threads that serve.
#pragma once

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/result.hpp>
#include <gpuactors/base/trace_context.hpp>

#include <apps/serve/service.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace serve {

/// A request and what became of it.
struct LoggedRequest {
  std::chrono::system_clock::time_point arrived = std::chrono::system_clock::now();
  gpuactors::TimePoint begun = gpuactors::Clock::now();
  std::string_view front;
  /// The address of whoever asked.
  std::string client;
  /// `request_id_of`, or one of the server's own.
  std::string id;
  /// "POST /v2/models/digits/infer", "ModelInfer"
  std::string what;
  std::string model;
  std::string version;
  /// Of HTTP, or gRPC's code.
  int status = 0;
  std::uint64_t in_bytes = 0;
  std::uint64_t out_bytes = 0;
  /// From `begun` to the first piece of a stream, and to the end.
  std::optional<gpuactors::Duration> first;
  gpuactors::Duration took{};
  /// What the model says of a request that it has answered.
  std::optional<ReplyTimes> times;
  /// Its span, or whatever its client has said; not valid if it belongs to no trace.
  gpuactors::TraceContext trace;
};

/// Returns the id that a client gives a request, or a new one if it gives none or one that is no plain word: 1 to 128
/// letters, digits and -_.:/+=@
[[nodiscard]] std::string request_id_of(std::string_view given);

/// The line of a request, without its end.
[[nodiscard]] std::string log_line_of(const LoggedRequest& request);

/// Any thread.
class RequestLog {
public:
  /// Lines that wait to be written; those that come when there are so many are lost, and counted.
  static constexpr std::size_t most_waiting = 16'384;

  /// Opens the file, to write at its end; "-" is standard output. A file that was renamed, as logrotate does, is made
  /// anew within a second of the next line.
  /// @param notice Told, once in a row, that lines cannot be written. On the log's thread.
  /// @returns `invalid_argument` if the file cannot be written, `unavailable` without a thread.
  static gpuactors::Result<std::shared_ptr<RequestLog>> open(std::filesystem::path file,
                                                             std::function<void(const std::string&)> notice);

  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;
  /// Writes what waits.
  ~RequestLog();

  /// Takes a request that is over. Never blocks.
  void add(LoggedRequest request);

  /// Returns how many lines were lost because too many waited.
  [[nodiscard]] std::size_t lost() const;

private:
  class Output;

  RequestLog(std::unique_ptr<Output> output);

  void run();

  const std::unique_ptr<Output> output_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by the mutex.
  std::vector<LoggedRequest> waiting_;
  std::size_t lost_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace serve
