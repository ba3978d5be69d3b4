// OwnFolder: a temporary folder that is gone with its object. Internal to the cluster layer.
#pragma once

#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/base/result.hpp>

#include <filesystem>
#include <utility>

namespace gpuactors::detail {

/// A folder that only this user can read (mode 0700). A program that is killed leaves its folder behind: whoever makes
/// the next one removes those of this user whose programs have ended. A lock in each folder tells which these are.
class OwnFolder {
public:
  /// @returns `unavailable` or `invalid_argument`, naming the path, if there can be none.
  static Result<OwnFolder> make();

  OwnFolder(OwnFolder&& other) noexcept : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {
    // nop
  }

  OwnFolder& operator=(OwnFolder&&) = delete;
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder();

  [[nodiscard]] const std::filesystem::path& path() const noexcept {
    return path_;
  }

private:
  OwnFolder(std::filesystem::path path, Descriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {
    // nop
  }

  std::filesystem::path path_;
  Descriptor lock_;
};

} // namespace gpuactors::detail
