// ReadyFile: a file that says, by being there, that a process can do its work. For probes that look for a file.
#pragma once

#include <gpuactors/base/result.hpp>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace gpuactors::cli {

/// Any thread. A thread of its own does what is slow: a file system, or standard error, may keep it waiting.
class ReadyFile {
public:
  /// Makes sure that the file can be written, and is not there.
  /// @param option the option that names it, for errors.
  /// @returns `invalid_argument` with the reason; also if something else than such a file is there.
  static Result<std::shared_ptr<ReadyFile>> make(std::string option, std::string path);

  ReadyFile(std::string option, std::string path);
  ReadyFile(const ReadyFile&) = delete;
  ReadyFile& operator=(const ReadyFile&) = delete;
  /// Takes the file away.
  ~ReadyFile();

  /// Has the file be there, or not. What cannot be done is written to standard error.
  void set(bool ready);

private:
  void run();
  /// @returns why it cannot be done, or an empty text.
  [[nodiscard]] std::string put(bool ready) const;

  const std::string option_;
  const std::string path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<bool> wanted_;
  bool over_ = false;
  std::thread thread_;
};

} // namespace gpuactors::cli
