// Calling NVRTC.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/cuda/compiler.hpp>

#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>

#include <algorithm>

namespace gpuactors::cuda {

#define GPUACTORS_NVRTC_TABLE(X)                                                                                       \
  X(version, nvrtcVersion)                                                                                             \
  X(get_error_string, nvrtcGetErrorString)                                                                             \
  X(count_chips, nvrtcGetNumSupportedArchs)                                                                            \
  X(get_chips, nvrtcGetSupportedArchs)                                                                                 \
  X(create, nvrtcCreateProgram)                                                                                        \
  X(destroy, nvrtcDestroyProgram)                                                                                      \
  X(add_name, nvrtcAddNameExpression)                                                                                  \
  X(compile, nvrtcCompileProgram)                                                                                      \
  X(get_log_size, nvrtcGetProgramLogSize)                                                                              \
  X(get_log, nvrtcGetProgramLog)                                                                                       \
  X(get_lowered_name, nvrtcGetLoweredName)                                                                             \
  X(get_cubin_size, nvrtcGetCUBINSize)                                                                                 \
  X(get_cubin, nvrtcGetCUBIN)                                                                                          \
  X(get_ptx_size, nvrtcGetPTXSize)                                                                                     \
  X(get_ptx, nvrtcGetPTX)

struct Compiler::Library {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name cannot be in parentheses
#define GPUACTORS_NVRTC_MEMBER(name, function) decltype(&(function)) name = nullptr;
  GPUACTORS_NVRTC_TABLE(GPUACTORS_NVRTC_MEMBER)
#undef GPUACTORS_NVRTC_MEMBER
};

namespace {

Result<void> check(const Compiler::Library& library, nvrtcResult result, const char* api) {
  if (result == NVRTC_SUCCESS)
    return {};
  return fail(Errc::internal,
              fmt::format("{}: {} ({})", api, library.get_error_string(result), static_cast<int>(result)));
}

/// A program while it is compiled.
class Program {
public:
  explicit Program(const Compiler::Library& library) : library_(library) {
    // nop
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (program_ != nullptr)
      (void)library_.destroy(&program_);
  }

  Result<void> open(const KernelSource& source) {
    GPUACTORS_TRY(check(library_, library_.create(&program_, source.source.c_str(), "kernel.cu", 0, nullptr, nullptr),
                        "nvrtcCreateProgram"));
    return check(library_, library_.add_name(program_, source.name.c_str()), "nvrtcAddNameExpression");
  }

  Result<void> compile(const KernelSource& source, const std::string& architecture) {
    std::vector<const char*> options{architecture.c_str()};
    bool has_standard = false;
    for (const auto& option : source.options) {
      options.push_back(option.c_str());
      has_standard = has_standard || option.starts_with("-std") || option.starts_with("--std");
    }
    if (!has_standard)
      options.push_back("--std=c++17");
    const auto result = library_.compile(program_, static_cast<int>(options.size()), options.data());
    if (result == NVRTC_SUCCESS)
      return {};
    if (result == NVRTC_ERROR_COMPILATION || result == NVRTC_ERROR_INVALID_OPTION
        || result == NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID)
      return fail(Errc::invalid_argument,
                  fmt::format("the source of kernel {} does not compile:\n{}", source.name, log()));
    return check(library_, result, "nvrtcCompileProgram");
  }

  Result<KernelCode> take(const std::string& name) {
    KernelCode result;
    const char* entry = nullptr;
    GPUACTORS_TRY(check(library_, library_.get_lowered_name(program_, name.c_str(), &entry), "nvrtcGetLoweredName"));
    result.entry = entry;
    std::size_t size = 0;
    GPUACTORS_TRY(check(library_, library_.get_cubin_size(program_, &size), "nvrtcGetCUBINSize"));
    if (size > 0) {
      result.code.resize(size);
      GPUACTORS_TRY(check(library_, library_.get_cubin(program_, result.code.data()), "nvrtcGetCUBIN"));
      return result;
    }
    GPUACTORS_TRY(check(library_, library_.get_ptx_size(program_, &size), "nvrtcGetPTXSize"));
    result.code.resize(size);
    GPUACTORS_TRY(check(library_, library_.get_ptx(program_, result.code.data()), "nvrtcGetPTX"));
    return result;
  }

private:
  std::string log() {
    std::size_t size = 0;
    if (library_.get_log_size(program_, &size) != NVRTC_SUCCESS || size == 0)
      return "(the compiler says nothing)";
    std::string text(size, '\0');
    (void)library_.get_log(program_, text.data());
    // It ends with a zero, and often with empty lines.
    text.erase(text.find_last_not_of(std::string_view{"\0\n", 2}) + 1);
    // The first errors say what is wrong.
    if (text.size() > limits::compiler_log_bytes) {
      const auto left_out = text.size() - limits::compiler_log_bytes;
      text.resize(limits::compiler_log_bytes);
      text += fmt::format("\n... and {} B more", left_out);
    }
    return text;
  }

  const Compiler::Library& library_;
  nvrtcProgram program_ = nullptr;
};

} // namespace

Result<const Compiler*> Compiler::get() {
  static const auto outcome = load();
  return outcome;
}

Result<const Compiler*> Compiler::load() {
  const auto name = fmt::format("libnvrtc.so.{}", CUDA_VERSION / 1000);
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(Errc::unsupported,
                fmt::format("kernels cannot be compiled at run time: {} was not found; install NVRTC of CUDA {}", name,
                            CUDA_VERSION / 1000));
  // Never unloaded, as the driver.
  auto* library = new Library;
  const char* missing = nullptr;
#define GPUACTORS_NVRTC_FIND(member, function)                                                                         \
  library->member = reinterpret_cast<decltype(library->member)>(dlsym(handle, #function));                             \
  if (library->member == nullptr)                                                                                      \
    missing = #function;
  GPUACTORS_NVRTC_TABLE(GPUACTORS_NVRTC_FIND)
#undef GPUACTORS_NVRTC_FIND
  if (missing != nullptr)
    return fail(Errc::unsupported, fmt::format("{} is too old: it has no {}", name, missing));
  int major = 0;
  int minor = 0;
  int count = 0;
  GPUACTORS_TRY(check(*library, library->version(&major, &minor), "nvrtcVersion"));
  GPUACTORS_TRY(check(*library, library->count_chips(&count), "nvrtcGetNumSupportedArchs"));
  std::vector<int> chips(static_cast<std::size_t>(count));
  GPUACTORS_TRY(check(*library, library->get_chips(chips.data()), "nvrtcGetSupportedArchs"));
  std::sort(chips.begin(), chips.end());
  return new Compiler(*library, fmt::format("{}.{}", major, minor), std::move(chips));
}

Result<std::string> Compiler::architecture_for(int capability) const {
  const auto above = std::upper_bound(chips_.begin(), chips_.end(), capability);
  if (above == chips_.begin())
    return fail(Errc::unsupported, fmt::format("NVRTC {} makes no code for chips of compute capability {}.{}", version_,
                                               capability / 10, capability % 10));
  const auto chip = *std::prev(above);
  return fmt::format("--gpu-architecture={}_{}", chip == capability ? "sm" : "compute", chip);
}

Result<KernelCode> Compiler::compile(const KernelSource& source, const std::string& architecture) const {
  Program program{library_};
  GPUACTORS_TRY(program.open(source));
  GPUACTORS_TRY(program.compile(source, architecture));
  return program.take(source.name);
}

} // namespace gpuactors::cuda
