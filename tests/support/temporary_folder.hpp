// A folder that is gone with its object.
#pragma once

#include <stdlib.h> // NOLINT(modernize-deprecated-headers): mkdtemp is POSIX's

#include <filesystem>
#include <string>
#include <system_error>

namespace gpuactors::test {

class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "gpuactors-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }

  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept {
    return path_;
  }

  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }

private:
  std::filesystem::path path_;
};

} // namespace gpuactors::test
