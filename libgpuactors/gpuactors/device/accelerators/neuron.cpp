// Finds AWS Neuron cores. The driver creates /dev/neuron0, /dev/neuron1, ... and reports in sysfs how many cores each
// device has. Core numbers run on from one device to the next.
#include <gpuactors/base/result.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace gpuactors {

namespace {

constexpr std::string_view prefix = "neuron";

// No device has more cores; a larger number in sysfs is a mistake.
constexpr int most_cores = 1024;

// Returns the number in "neuron12"; -1 for other names, such as "neuron_monitor".
int index_of(const std::string& name) {
  const auto digits = name.size() > prefix.size() ? name.substr(prefix.size()) : "";
  if (name.compare(0, prefix.size(), prefix) != 0 || digits.empty() || digits.size() > 4
      || digits.find_first_not_of("0123456789") != std::string::npos)
    return -1;
  return std::stoi(digits);
}

Result<int> cores_of(const std::filesystem::path& root, int device) {
  const auto path = root / fmt::format("sys/devices/virtual/neuron_device/neuron{}/core_count", device);
  std::ifstream file(path);
  int cores = 0;
  if (!(file >> cores) || cores < 1 || cores > most_cores)
    return fail(Errc::unsupported,
                fmt::format("there is a device neuron{}, but {} does not say how many cores it has: give the node the "
                            "resource neuron_cores by hand",
                            device, path.string()));
  return cores;
}

} // namespace

Result<int> discover_neuron_cores(const std::filesystem::path& root);

Result<int> discover_neuron_cores(const std::filesystem::path& root) {
  std::set<int> devices;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator{root / "dev", error};
       !error && it != std::filesystem::directory_iterator{}; it.increment(error))
    if (const auto index = index_of(it->path().filename().string()); index >= 0)
      devices.insert(index);
  int cores = 0;
  for (const auto device : devices) {
    GPUACTORS_LET(count, cores_of(root, device));
    cores += count;
  }
  return cores;
}

} // namespace gpuactors
