// ReadyFile: a file that says, by being there, that a process can do its work. For probes that look for a file.
#pragma once

#include <gpuactors/base/result.hpp>

#include <memory>
#include <mutex>
#include <string>

namespace gpuactors::cli {

/// Any thread.
class ReadyFile {
public:
  /// Makes sure that the file can be written, and is not there.
  /// @param option the option that names it, for errors.
  /// @returns `invalid_argument` with the reason.
  static Result<std::shared_ptr<ReadyFile>> make(std::string option, std::string path);

  ReadyFile(std::string option, std::string path);
  ReadyFile(const ReadyFile&) = delete;
  ReadyFile& operator=(const ReadyFile&) = delete;

  /// Puts the file there, or takes it away. What cannot be done is written to standard error.
  void set(bool ready);

private:
  /// @returns why it cannot be done, or an empty text.
  [[nodiscard]] std::string put(bool ready) const;

  const std::string option_;
  const std::string path_;
  std::mutex mutex_;
};

} // namespace gpuactors::cli
