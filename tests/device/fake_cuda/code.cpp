// Loading and unloading. As the real driver may do it, both wait for all that is queued on the device, and other calls
// wait for them.
#include <device/fake_cuda/code.hpp>
#include <device/fake_cuda/green.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>

namespace gpuactors::fake {

namespace {

KernelFinder find_kernel = nullptr;
/// That are loaded.
std::atomic<int> libraries{0};
std::atomic<int> loading_launches{0};
/// What blocks may have without asking.
constexpr unsigned plain_shared_bytes = 48U << 10;
/// What each kernel is taken to declare itself.
constexpr int own_shared_bytes = 1 << 10;

/// A kernel for one context.
using Function = std::pair<const FakeKernel*, const void*>;

struct Code {
  /// Held while code is loaded or unloaded.
  std::mutex mutex;
  /// Dynamic shared memory that blocks were allowed.
  std::map<const FakeKernel*, int> shared;
  std::set<Function> loaded;
  std::set<CUstream> streams;
  /// The primary context of each stream that is of one.
  std::map<CUstream, const void*> contexts;
  /// Their addresses are handles.
  std::set<Function> functions;
};

Code& code() {
  static Code all;
  return all;
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
  wait_for_queued_work(fmt::format("loading kernel {}", function.first->entry));
}

const FakeKernel* find(const char* name) {
  const auto* found = find_kernel != nullptr ? find_kernel(name) : nullptr;
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
const Function& check(CUfunction function) {
  const auto* known = reinterpret_cast<const Function*>(function);
  if (std::none_of(code().functions.begin(), code().functions.end(), [&](const auto& one) { return &one == known; }))
    misuse("cuFuncLoad of no function");
  return *known;
}

} // namespace

CUresult library_load_data(CUlibrary* library, const void* data, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
  ++libraries;
  *library = reinterpret_cast<CUlibrary>(const_cast<void*>(data));
  return CUDA_SUCCESS;
}

CUresult library_unload(CUlibrary) {
  const std::lock_guard guard{code().mutex};
  wait_for_queued_work("unloading a library");
  --libraries;
  return CUDA_SUCCESS;
}

CUresult library_get_kernel(CUkernel* kernel, CUlibrary, const char* name) {
  const auto* found = find(name);
  *kernel = reinterpret_cast<CUkernel>(const_cast<FakeKernel*>(found));
  return found != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult library_get_kernel_count(unsigned* count, CUlibrary library) {
  *count = static_cast<unsigned>(kernels_in(library).size());
  return CUDA_SUCCESS;
}

CUresult library_enumerate_kernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  const auto all = kernels_in(library);
  for (std::size_t i = 0; i < std::min<std::size_t>(count, all.size()); ++i)
    kernels[i] = reinterpret_cast<CUkernel>(const_cast<FakeKernel*>(all[i]));
  return CUDA_SUCCESS;
}

CUresult kernel_get_function(CUfunction* function, CUkernel kernel) {
  need_context("cuKernelGetFunction");
  const std::lock_guard guard{code().mutex};
  const auto& known = *code().functions.emplace(reinterpret_cast<const FakeKernel*>(kernel), current_context()).first;
  *function = reinterpret_cast<CUfunction>(const_cast<Function*>(&known));
  return CUDA_SUCCESS;
}

CUresult func_load(CUfunction function) {
  const std::lock_guard guard{code().mutex};
  load(check(function));
  return CUDA_SUCCESS;
}

CUresult kernel_get_attribute(int* value, CUfunction_attribute attribute, CUkernel, CUdevice) {
  if (attribute != CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
    return CUDA_ERROR_INVALID_VALUE;
  *value = own_shared_bytes;
  return CUDA_SUCCESS;
}

CUresult kernel_set_attribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice) {
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > most_shared_bytes - own_shared_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard{code().mutex};
  code().shared[reinterpret_cast<const FakeKernel*>(kernel)] = value;
  return CUDA_SUCCESS;
}

bool may_have_shared(const FakeKernel* kernel, unsigned bytes) {
  const std::lock_guard guard{code().mutex};
  const auto allowed = code().shared.find(kernel);
  return bytes + own_shared_bytes <= plain_shared_bytes
         || (allowed != code().shared.end() && bytes <= static_cast<unsigned>(allowed->second));
}

void load_for_launch(const FakeKernel* kernel, CUstream stream) {
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

void remember_stream(CUstream stream) {
  const std::lock_guard guard{code().mutex};
  code().streams.insert(stream);
}

void forget_code_of_stream(CUstream stream) {
  const std::lock_guard guard{code().mutex};
  code().streams.erase(stream);
  code().contexts.erase(stream);
}

void forget_code_of_context(const void* context) {
  const auto is_its = [context](const Function& function) { return function.second == context; };
  const std::lock_guard guard{code().mutex};
  std::erase_if(code().loaded, is_its);
  std::erase_if(code().functions, is_its);
}

} // namespace gpuactors::fake

void fake_cuda_set_kernels(gpuactors::fake::KernelFinder finder) {
  gpuactors::fake::find_kernel = finder;
}

int fake_cuda_libraries() {
  return gpuactors::fake::libraries;
}

int fake_cuda_loading_launches() {
  return gpuactors::fake::loading_launches;
}
