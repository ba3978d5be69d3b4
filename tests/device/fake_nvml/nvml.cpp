// libnvidia-ml for tests: the functions that we use, over a machine on paper.
#include <gpuactors/device/nvml/library.hpp>

#include <device/fake_nvml/nvml.hpp>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <utility>

using namespace gpuactors;
using namespace gpuactors::nvml;

namespace {

struct FakeDevice {
  std::string uuid;
  std::string name;
  std::uint64_t memory;
  int parent;
};

/// GPUs 0 to 2, then the slices of 2.
FakeDevice devices[] = {
    {fake::second_uuid, "NVIDIA H100 80GB HBM3", std::uint64_t{80} << 30, 0},
    {fake::first_uuid, "NVIDIA H100 80GB HBM3", std::uint64_t{80} << 30, 1},
    {fake::divided_uuid, "NVIDIA A100-SXM4-40GB", std::uint64_t{40} << 30, 2},
    {fake::slice_uuid, "NVIDIA A100-SXM4-40GB MIG 3g.20gb", std::uint64_t{20} << 30, 2},
    {fake::other_slice_uuid, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", std::uint64_t{5} << 30, 2},
};
constexpr unsigned gpu_count = 3;
constexpr int divided = 2;

struct State {
  std::mutex mutex;
  std::condition_variable posted;
  std::deque<EventData> events;
  /// Indices of the GPUs that have fallen off the bus.
  std::set<int> fallen;
  std::map<int, int> broken;
  std::map<int, std::uint64_t> registered;
  bool divided_anew = false;
};

State& state() {
  static auto* one = new State;
  return *one;
}

DeviceHandle handle_of(int index) {
  return reinterpret_cast<DeviceHandle>(&devices[index]);
}

int index_of(DeviceHandle handle) {
  return static_cast<int>(reinterpret_cast<FakeDevice*>(handle) - devices);
}

/// A set of events: the indices of the GPUs whose events come with it.
using Registered = std::set<int>;

Registered* registered_in(EventSet set) {
  return reinterpret_cast<Registered*>(set);
}

int broken(DeviceHandle handle) {
  const std::lock_guard guard{state().mutex};
  const auto found = state().broken.find(devices[index_of(handle)].parent);
  return found != state().broken.end() ? found->second : 0;
}

int say(const std::string& text, char* out, unsigned size) {
  if (text.size() >= size)
    return 7;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return success;
}

/// FAKE_NVML_EVENTS names a pipe from which events come as lines "INDEX TYPE DATA": for tests of other processes.
int event_pipe() {
  static const int pipe = [] {
    const char* path = std::getenv("FAKE_NVML_EVENTS");
    // For writing too: there is no end of the file when a writer leaves.
    return path != nullptr ? ::open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
  }();
  return pipe;
}

int read_pipe(int timeout) {
  if (event_pipe() < 0)
    return success;
  {
    const std::lock_guard guard{state().mutex};
    if (!state().events.empty())
      return success;
  }
  pollfd wanted{event_pipe(), POLLIN, 0};
  if (::poll(&wanted, 1, timeout) <= 0)
    return timed_out;
  std::array<char, 4096> text{};
  const auto size = ::read(event_pipe(), text.data(), text.size() - 1);
  std::istringstream lines{std::string{text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size))}};
  int index = 0;
  std::uint64_t type = 0;
  std::uint64_t data = 0;
  const std::lock_guard guard{state().mutex};
  while (lines >> index >> type >> data)
    state().events.push_back({handle_of(index), type, data, 0xffffffff, 0xffffffff});
  return success;
}

} // namespace

extern "C" {

int nvmlInit_v2() {
  return success;
}

const char* nvmlErrorString(int result) {
  return result == gpu_is_lost ? "GPU is lost" : "Some error";
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = gpu_count;
  return success;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, DeviceHandle* handle) {
  *handle = handle_of(static_cast<int>(index));
  return broken(*handle);
}

int nvmlDeviceGetName(DeviceHandle handle, char* out, unsigned size) {
  return say(devices[index_of(handle)].name, out, size);
}

int nvmlDeviceGetUUID(DeviceHandle handle, char* out, unsigned size) {
  return say(devices[index_of(handle)].uuid, out, size);
}

int nvmlDeviceGetMemoryInfo(DeviceHandle handle, Memory* memory) {
  const auto& device = devices[index_of(handle)];
  *memory = {device.memory, device.memory / 4 * 3, device.memory / 4};
  return broken(handle);
}

int nvmlDeviceGetUtilizationRates(DeviceHandle handle, Utilization* use) {
  // Slices have none.
  if (index_of(handle) >= static_cast<int>(gpu_count))
    return not_supported;
  *use = {70, 30};
  return success;
}

int nvmlDeviceGetPciInfo_v3(DeviceHandle handle, PciInfo* pci) {
  *pci = {};
  pci->bus = static_cast<std::uint32_t>(0x3b + devices[index_of(handle)].parent);
  return success;
}

int nvmlDeviceGetTotalEccErrors(DeviceHandle, int type, int counter, unsigned long long* errors) {
  *errors = type == 1 && counter == 0 ? 4 : 1000;
  return success;
}

int nvmlDeviceGetAttributes_v2(DeviceHandle handle, Attributes* attributes) {
  *attributes = {};
  attributes->multiprocessors = index_of(handle) == 3 ? 42 : 14;
  return success;
}

int nvmlDeviceGetMigMode(DeviceHandle handle, unsigned* current, unsigned* pending) {
  *current = *pending = index_of(handle) == divided ? 1 : 0;
  return success;
}

int nvmlDeviceGetMaxMigDeviceCount(DeviceHandle, unsigned* count) {
  *count = 7;
  return success;
}

/// With a hole between the two.
int nvmlDeviceGetMigDeviceHandleByIndex(DeviceHandle, unsigned index, DeviceHandle* handle) {
  if (index != 0 && (index != 2 || state().divided_anew))
    return not_found;
  *handle = handle_of(index == 0 ? 3 : 4);
  return success;
}

int nvmlDeviceGetTopologyCommonAncestor(DeviceHandle, DeviceHandle, int* level) {
  *level = 50;
  return success;
}

int nvmlDeviceGetP2PStatus(DeviceHandle one, DeviceHandle other, int index, int* status) {
  *status = index == 2 && index_of(one) < divided && index_of(other) < divided ? 0 : 2;
  return success;
}

int nvmlEventSetCreate(EventSet* set) {
  *set = reinterpret_cast<EventSet>(new Registered);
  return success;
}

int nvmlEventSetFree(EventSet set) {
  delete registered_in(set);
  return success;
}

bool has_fallen(int gpu) {
  const std::lock_guard guard{state().mutex};
  return state().fallen.count(gpu) > 0;
}

int nvmlDeviceGetSupportedEventTypes(DeviceHandle handle, unsigned long long* types) {
  if (has_fallen(index_of(handle)))
    return gpu_is_lost;
  *types = index_of(handle) == divided ? 0x8 : 0xf00a;
  return success;
}

int nvmlDeviceRegisterEvents(DeviceHandle handle, unsigned long long types, EventSet set) {
  if (has_fallen(index_of(handle)))
    return gpu_is_lost;
  const auto allowed = index_of(handle) == divided ? 0x8ULL : 0xf00aULL;
  if ((types & ~allowed) != 0)
    return not_supported;
  registered_in(set)->insert(index_of(handle));
  return success;
}

/// Says at once, and each time, that a GPU of the set is lost: not which one, and nothing of the others.
int nvmlEventSetWait_v2(EventSet set, EventData* data, unsigned timeout) {
  if (const auto result = read_pipe(static_cast<int>(timeout)); result != success)
    return result;
  const auto& registered = *registered_in(set);
  std::unique_lock lock{state().mutex};
  const auto is_lost = [&] {
    return std::any_of(registered.begin(), registered.end(), [](int gpu) { return state().fallen.count(gpu) > 0; });
  };
  const auto next = [&] {
    return std::find_if(state().events.begin(), state().events.end(),
                        [&](const EventData& event) { return registered.count(index_of(event.device)) > 0; });
  };
  // The file has waited, if there is one.
  state().posted.wait_for(lock, std::chrono::milliseconds{event_pipe() < 0 ? timeout : 0},
                          [&] { return is_lost() || next() != state().events.end(); });
  if (is_lost())
    return gpu_is_lost;
  const auto event = next();
  if (event == state().events.end())
    return timed_out;
  *data = *event;
  state().events.erase(event);
  return success;
}

void fake_nvml_post(int index, std::uint64_t type, std::uint64_t data) {
  const std::lock_guard guard{state().mutex};
  state().events.push_back({handle_of(index), type, data, 0xffffffff, 0xffffffff});
  state().posted.notify_all();
}

void fake_nvml_fall(int index) {
  const std::lock_guard guard{state().mutex};
  state().fallen.insert(index);
  state().posted.notify_all();
}

void fake_nvml_break(int index, int result) {
  const std::lock_guard guard{state().mutex};
  state().broken[index] = result;
}

void fake_nvml_divide_anew() {
  devices[3].uuid = "MIG-33333333-4455-6677-8899-aabbccddeeff";
  state().divided_anew = true;
}
}
