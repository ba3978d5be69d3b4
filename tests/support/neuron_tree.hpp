// A folder with the files by which an AWS Neuron driver shows its devices; gone with the object.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace gpuactors::test {

class NeuronTree {
public:
  /// A device for each number, with that many cores; for -1 without the file that says so.
  explicit NeuronTree(const std::vector<int>& cores) {
    static std::atomic<int> count{0};
    root_ = std::filesystem::temp_directory_path()
            / ("gpuactors-neuron-" + std::to_string(getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(root_ / "dev");
    for (std::size_t i = 0; i < cores.size(); ++i) {
      const auto name = "neuron" + std::to_string(i);
      write(root_ / "dev" / name, "");
      if (cores[i] >= 0)
        write(root_ / "sys/devices/virtual/neuron_device" / name / "core_count", std::to_string(cores[i]) + "\n");
    }
  }

  ~NeuronTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  NeuronTree(const NeuronTree&) = delete;
  NeuronTree& operator=(const NeuronTree&) = delete;

  static void write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream{path} << text;
  }

  [[nodiscard]] const std::filesystem::path& root() const noexcept {
    return root_;
  }

private:
  std::filesystem::path root_;
};

} // namespace gpuactors::test
