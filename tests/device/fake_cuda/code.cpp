// Loading and unloading. As the real driver may do it, both wait for all that is queued on the device, and other calls
// wait for them.
#include <device/fake_cuda/code.hpp>
#include <device/fake_cuda/graphs.hpp>
#include <device/fake_cuda/green.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

namespace gpuactors::fake {

struct LoadedKernel {
  const FakeKernel* kernel;
  /// Until its library is unloaded.
  bool is_there = true;
};

namespace {

/// What was loaded. Neither it nor its kernels are ever freed, so that no handle is used for two.
struct Library {
  const void* image;
  std::map<const FakeKernel*, LoadedKernel> kernels = {};
  bool is_there = true;
};

KernelFinder find_in_program = nullptr;
std::atomic<int> loading_launches{0};
/// What blocks may have without asking.
constexpr unsigned plain_shared_bytes = 48U << 10;
/// What each kernel is taken to declare itself.
constexpr int own_shared_bytes = 1 << 10;

/// A kernel for one context.
using Function = std::pair<const LoadedKernel*, const void*>;

struct Code {
  /// Held while code is loaded or unloaded.
  std::mutex mutex;
  std::vector<std::unique_ptr<Library>> libraries;
  std::set<const LoadedKernel*> kernels;
  /// Dynamic shared memory that blocks were allowed.
  std::map<const LoadedKernel*, int> shared;
  std::set<Function> loaded;
  std::set<CUstream> streams;
  /// The primary context of each stream that is of one.
  std::map<CUstream, const void*> contexts;
  std::map<CUstream, int> devices;
  /// Their addresses are handles.
  std::set<Function> functions;
};

Code& code() {
  static auto* all = new Code;
  return *all;
}

/// Ends the process when what is queued does not end. The mutex is held.
void wait_for_queued_work(const std::string& what) {
  constexpr auto patience = std::chrono::seconds{5};
  const auto until = std::chrono::steady_clock::now() + patience;
  for (auto* stream : code().streams) {
    const auto event = *machine().backend->make_event();
    (void)machine().backend->record(event, handle(stream));
    while (!*machine().backend->query(event)) {
      if (std::chrono::steady_clock::now() > until)
        misuse(what + " may wait for work that is queued, and that does not end");
      std::this_thread::yield();
    }
    machine().backend->destroy_event(event);
  }
}

/// The mutex is held.
void load(const Function& function) {
  static const bool lazy = std::getenv("FAKE_CUDA_LAZY") != nullptr;
  if (!code().loaded.insert(function).second || !lazy)
    return;
  wait_for_queued_work(fmt::format("loading kernel {}", function.first->kernel->entry));
}

const FakeKernel* find(const char* name) {
  const auto* found = find_in_program != nullptr ? find_in_program(name) : nullptr;
  return found != nullptr ? found : find_source_kernel(name);
}

/// The kernels of ours in a fat binary: machine code has a section for each, named after it.
std::vector<const FakeKernel*> kernels_in(const void* image) {
  struct Header {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint16_t header_bytes;
    std::uint64_t bytes;
  } header{};
  std::memcpy(&header.magic, image, sizeof(header.magic));
  if (header.magic != 0xba55ed50U)
    return {};
  std::memcpy(&header, image, sizeof(header));
  const std::string_view bytes{static_cast<const char*>(image), header.header_bytes + header.bytes};
  constexpr std::string_view section = ".text.gpuactors_kernel_";
  std::set<const FakeKernel*> found;
  for (auto at = bytes.find(section); at != bytes.npos; at = bytes.find(section, at + 1))
    if (const auto* kernel = find(bytes.data() + at + std::strlen(".text.")))
      found.insert(kernel);
  return {found.begin(), found.end()};
}

/// The mutex is held.
Library& library_of(CUlibrary handle, const char* api) {
  for (const auto& library : code().libraries)
    if (library.get() == reinterpret_cast<const Library*>(handle)) {
      if (!library->is_there)
        misuse(fmt::format("{} of a library that is unloaded", api));
      return *library;
    }
  misuse(fmt::format("{} of no library", api));
}

/// The handle for a kernel of that library. The mutex is held.
CUkernel handle_of(Library& library, const FakeKernel* kernel) {
  const auto& loaded = library.kernels.emplace(kernel, LoadedKernel{kernel}).first->second;
  code().kernels.insert(&loaded);
  return reinterpret_cast<CUkernel>(const_cast<LoadedKernel*>(&loaded));
}

/// The mutex is held.
const LoadedKernel* check(CUkernel handle, const char* api) {
  const auto* known = reinterpret_cast<const LoadedKernel*>(handle);
  if (!code().kernels.contains(known))
    misuse(fmt::format("{} of no kernel", api));
  if (!known->is_there)
    misuse(fmt::format("{} of kernel {}, whose library is unloaded", api, known->kernel->entry));
  return known;
}

/// The mutex is held.
const Function& check(CUfunction function) {
  const auto* known = reinterpret_cast<const Function*>(function);
  if (std::none_of(code().functions.begin(), code().functions.end(), [&](const auto& one) { return &one == known; }))
    misuse("cuFuncLoad of no function");
  return *known;
}

} // namespace

CUresult library_load_data(CUlibrary* library, const void* data, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
  need_relaxed("cuLibraryLoadData");
  const std::lock_guard guard{code().mutex};
  auto* loaded = code().libraries.emplace_back(std::make_unique<Library>(Library{data})).get();
  *library = reinterpret_cast<CUlibrary>(loaded);
  return CUDA_SUCCESS;
}

CUresult library_unload(CUlibrary handle) {
  need_relaxed("cuLibraryUnload");
  const std::lock_guard guard{code().mutex};
  auto& library = library_of(handle, "cuLibraryUnload");
  wait_for_queued_work("unloading a library");
  library.is_there = false;
  for (auto& [kernel, loaded] : library.kernels)
    loaded.is_there = false;
  return CUDA_SUCCESS;
}

CUresult library_get_kernel(CUkernel* kernel, CUlibrary handle, const char* name) {
  const std::lock_guard guard{code().mutex};
  auto& library = library_of(handle, "cuLibraryGetKernel");
  const auto* found = find(name);
  if (found == nullptr)
    return CUDA_ERROR_NOT_FOUND;
  *kernel = handle_of(library, found);
  return CUDA_SUCCESS;
}

CUresult library_get_kernel_count(unsigned* count, CUlibrary handle) {
  const std::lock_guard guard{code().mutex};
  *count = static_cast<unsigned>(kernels_in(library_of(handle, "cuLibraryGetKernelCount").image).size());
  return CUDA_SUCCESS;
}

CUresult library_enumerate_kernels(CUkernel* kernels, unsigned count, CUlibrary handle) {
  const std::lock_guard guard{code().mutex};
  auto& library = library_of(handle, "cuLibraryEnumerateKernels");
  const auto all = kernels_in(library.image);
  for (std::size_t i = 0; i < std::min<std::size_t>(count, all.size()); ++i)
    kernels[i] = handle_of(library, all[i]);
  return CUDA_SUCCESS;
}

const LoadedKernel* find_kernel(CUkernel handle, const char* api) {
  const std::lock_guard guard{code().mutex};
  return check(handle, api);
}

const FakeKernel& about(const LoadedKernel* kernel) {
  return *kernel->kernel;
}

void need_loaded(const LoadedKernel* kernel, const char* api) {
  (void)find_kernel(reinterpret_cast<CUkernel>(const_cast<LoadedKernel*>(kernel)), api);
}

CUresult kernel_get_function(CUfunction* function, CUkernel kernel) {
  need_context("cuKernelGetFunction");
  const std::lock_guard guard{code().mutex};
  const auto& known = *code().functions.emplace(check(kernel, "cuKernelGetFunction"), current_context()).first;
  *function = reinterpret_cast<CUfunction>(const_cast<Function*>(&known));
  return CUDA_SUCCESS;
}

CUresult func_load(CUfunction function) {
  const std::lock_guard guard{code().mutex};
  load(check(function));
  return CUDA_SUCCESS;
}

CUresult kernel_get_attribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice) {
  (void)find_kernel(kernel, "cuKernelGetAttribute");
  if (attribute != CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
    return CUDA_ERROR_INVALID_VALUE;
  *value = own_shared_bytes;
  return CUDA_SUCCESS;
}

CUresult kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice) {
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > most_shared_bytes - own_shared_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard{code().mutex};
  code().shared[check(kernel, "cuKernelSetAttribute")] = value;
  return CUDA_SUCCESS;
}

bool may_have_shared(const LoadedKernel* kernel, unsigned bytes) {
  const std::lock_guard guard{code().mutex};
  const auto allowed = code().shared.find(kernel);
  return bytes + own_shared_bytes <= plain_shared_bytes
         || (allowed != code().shared.end() && bytes <= static_cast<unsigned>(allowed->second));
}

void load_for_launch(const LoadedKernel* kernel, CUstream stream) {
  const auto* context = green_of(stream);
  const std::lock_guard guard{code().mutex};
  if (const auto primary = code().contexts.find(stream); context == nullptr && primary != code().contexts.end())
    context = primary->second;
  if (code().loaded.count({kernel, context}) > 0)
    return;
  ++loading_launches;
  load({kernel, context});
}

void pass_loading() {
  const std::lock_guard guard{code().mutex};
}

void remember_context_of_stream(CUstream stream, const void* context) {
  const std::lock_guard guard{code().mutex};
  code().contexts[stream] = context;
}

void remember_device_of_stream(CUstream stream, int device) {
  const std::lock_guard guard{code().mutex};
  code().devices[stream] = device;
}

void need_own_stream(CUstream stream, const char* api) {
  const auto device = current_device();
  const std::lock_guard guard{code().mutex};
  const auto found = code().devices.find(stream);
  if (found == code().devices.end())
    misuse(fmt::format("{} on no stream", api));
  if (found->second != device)
    misuse(
        fmt::format("{} on a stream of device {} while a context of device {} is current", api, found->second, device));
}

void remember_stream(CUstream stream) {
  const std::lock_guard guard{code().mutex};
  code().streams.insert(stream);
}

void forget_code_of_stream(CUstream stream) {
  const std::lock_guard guard{code().mutex};
  code().streams.erase(stream);
  code().contexts.erase(stream);
  code().devices.erase(stream);
}

void forget_code_of_context(const void* context) {
  const auto is_its = [context](const Function& function) { return function.second == context; };
  const std::lock_guard guard{code().mutex};
  std::erase_if(code().loaded, is_its);
  std::erase_if(code().functions, is_its);
}

} // namespace gpuactors::fake

void fake_cuda_set_kernels(gpuactors::fake::KernelFinder finder) {
  gpuactors::fake::find_in_program = finder;
}

void* fake_cuda_kernel(const gpuactors::fake::FakeKernel* kernel) {
  using namespace gpuactors::fake;
  static auto* none = new Library{nullptr};
  const std::lock_guard guard{code().mutex};
  return handle_of(*none, kernel);
}

int fake_cuda_libraries() {
  using gpuactors::fake::code;
  const std::lock_guard guard{code().mutex};
  return static_cast<int>(std::count_if(code().libraries.begin(), code().libraries.end(),
                                        [](const auto& library) { return library->is_there; }));
}

int fake_cuda_loading_launches() {
  return gpuactors::fake::loading_launches;
}
