#include "bare.hpp"

#include "../harness.hpp"
#include "nothing.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace gpuactors::bench {

namespace {

[[noreturn]] void give_up_on(const std::string& what) {
  fmt::print(stderr, "gpuactors-bench, bare CUDA: {}\n", what);
  std::exit(1);
}

void* open_library(const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    give_up_on(dlerror());
  return library;
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    give_up_on(fmt::format("there is no {}", name));
}

/// Finds all of them. The number is the version of CUDA whose signature is meant.
BareCuda load() {
  BareCuda cuda;
  PFN_cuGetProcAddress_v12000 get = nullptr;
  find(open_library("libcuda.so.1"), "cuGetProcAddress_v2", get);
  const auto find_in_driver = [&](const char* name, int version, auto& function) {
    void* found = nullptr;
    auto status = CU_GET_PROC_ADDRESS_SUCCESS;
    check_cuda(get(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status), name);
    if (found == nullptr)
      give_up_on(fmt::format("the driver has no {}", name));
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  find_in_driver("cuStreamQuery", 2000, cuda.stream_query);
  find_in_driver("cuStreamSynchronize", 2000, cuda.stream_synchronize);
  find_in_driver("cuMemHostAlloc", 2020, cuda.mem_host_alloc);
  find_in_driver("cuMemFreeHost", 2000, cuda.mem_free_host);
  find_in_driver("cuMemcpyAsync", 4000, cuda.memcpy_async);
  find_in_driver("cuLibraryLoadData", 12000, cuda.library_load_data);
  find_in_driver("cuLibraryGetKernel", 12000, cuda.library_get_kernel);
  find_in_driver("cuLaunchKernel", 4000, cuda.launch_kernel);
  void* const blas = open_library(fmt::format("libcublas.so.{}", CUDA_VERSION / 1000));
  find(blas, "cublasCreate_v2", cuda.blas_create);
  find(blas, "cublasDestroy_v2", cuda.blas_destroy);
  find(blas, "cublasSetStream_v2", cuda.blas_set_stream);
  find(blas, "cublasSetWorkspace_v2", cuda.blas_set_workspace);
  find(blas, "cublasSetMathMode", cuda.blas_set_math_mode);
  find(blas, "cublasSgemm_v2_64", cuda.sgemm);
  find(blas, "cublasGemmEx_64", cuda.gemm_ex);
  return cuda;
}

/// Waits as fast as can be, which keeps a processor busy: threads of the primary context sleep in cuStreamSynchronize.
void wait_for(CUstream stream) {
  const auto& cuda = BareCuda::get();
  while (cuda.stream_query(stream) == CUDA_ERROR_NOT_READY) {
    // nop
  }
  check_cuda(cuda.stream_synchronize(stream), "cuStreamSynchronize");
}

/// The driver's handle of our kernel; loaded once for the life of the process.
CUfunction nothing_of_driver() {
  static const auto loaded = [] {
    const auto& cuda = BareCuda::get();
    CUlibrary library = nullptr;
    check_cuda(
        cuda.library_load_data(&library, bench_nothing.info.image->begin, nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cuLibraryLoadData");
    CUkernel kernel = nullptr;
    check_cuda(cuda.library_get_kernel(&kernel, library, "gpuactors_kernel_bench_nothing"), "cuLibraryGetKernel");
    return reinterpret_cast<CUfunction>(kernel);
  }();
  return loaded;
}

} // namespace

const BareCuda& BareCuda::get() {
  static const auto loaded = load();
  return loaded;
}

void check_cuda(CUresult result, const char* function) {
  if (result != CUDA_SUCCESS)
    give_up_on(fmt::format("{} failed with {}", function, static_cast<int>(result)));
}

void check_cublas(cublasStatus_t status, const char* function) {
  if (status != CUBLAS_STATUS_SUCCESS)
    give_up_on(fmt::format("{} failed with {}", function, static_cast<int>(status)));
}

double bare_launch_ns(CUstream stream, int count) {
  const auto& cuda = BareCuda::get();
  auto* const kernel = nothing_of_driver();
  std::uint64_t n = 1;
  KernelPack<> pack;
  void* arguments[] = {&n, &pack};
  constexpr unsigned threads = 256;
  const auto start = now_ns();
  for (int i = 0; i < count; ++i) {
    check_cuda(cuda.launch_kernel(kernel, 1, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr), "cuLaunchKernel");
    wait_for(stream);
  }
  return (now_ns() - start) / count;
}

double bare_product_ns(CUstream stream, std::int64_t n, const void* a, const void* b, void* c, cudaDataType type,
                       void* workspace, std::size_t workspace_bytes, int count) {
  const auto& cuda = BareCuda::get();
  cublasHandle_t handle = nullptr;
  check_cublas(cuda.blas_create(&handle), "cublasCreate");
  check_cublas(cuda.blas_set_stream(handle, stream), "cublasSetStream");
  check_cublas(cuda.blas_set_workspace(handle, workspace, workspace_bytes), "cublasSetWorkspace");
  const float one = 1.0F;
  const float zero = 0.0F;
  if (type != CUDA_R_32F)
    check_cublas(cuda.blas_set_math_mode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
                 "cublasSetMathMode");
  // cuBLAS is column-major: the product of the operands in the other order is ours.
  const auto multiply_once = [&] {
    if (type == CUDA_R_32F)
      check_cublas(cuda.sgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, static_cast<const float*>(b), n,
                              static_cast<const float*>(a), n, &zero, static_cast<float*>(c), n),
                   "cublasSgemm");
    else
      check_cublas(cuda.gemm_ex(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b, type, n, a, type, n, &zero, c, type,
                                n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                   "cublasGemmEx");
  };
  const auto multiply = [&](int times) {
    for (int i = 0; i < times; ++i)
      multiply_once();
    wait_for(stream);
  };
  multiply(1); // the first of a handle costs more
  const auto start = now_ns();
  multiply(count);
  const auto spent = now_ns() - start;
  check_cublas(cuda.blas_destroy(handle), "cublasDestroy");
  return spent / count;
}

BarePinned::BarePinned(std::size_t bytes) : bytes_(bytes) {
  check_cuda(BareCuda::get().mem_host_alloc(&data_, bytes, 0), "cuMemHostAlloc");
}

BarePinned::~BarePinned() {
  (void)BareCuda::get().mem_free_host(data_);
}

double BarePinned::upload_ns(CUstream stream, void* device, int times) const {
  const auto& cuda = BareCuda::get();
  const auto start = now_ns();
  for (int i = 0; i < times; ++i)
    check_cuda(
        cuda.memcpy_async(reinterpret_cast<CUdeviceptr>(device), reinterpret_cast<CUdeviceptr>(data_), bytes_, stream),
        "cuMemcpyAsync");
  wait_for(stream);
  return (now_ns() - start) / times;
}

BareRoundTrip::BareRoundTrip(CUstream stream, const BareMatrices& matrices)
  : stream_(stream), matrices_(matrices), staged_(static_cast<std::size_t>(matrices.n * matrices.n) * sizeof(float)),
    ones_(static_cast<std::size_t>(matrices.n * matrices.n), 1.0F), result_(ones_.size()) {
  const auto& cuda = BareCuda::get();
  check_cublas(cuda.blas_create(&handle_), "cublasCreate");
  check_cublas(cuda.blas_set_stream(handle_, stream_), "cublasSetStream");
  check_cublas(cuda.blas_set_workspace(handle_, matrices_.workspace, matrices_.workspace_bytes), "cublasSetWorkspace");
}

BareRoundTrip::~BareRoundTrip() {
  check_cublas(BareCuda::get().blas_destroy(handle_), "cublasDestroy");
}

void BareRoundTrip::run() {
  const auto& cuda = BareCuda::get();
  const auto& [n, a, b, c, workspace, workspace_bytes] = matrices_;
  const auto copy = [&](const void* to, const void* from) {
    check_cuda(cuda.memcpy_async(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                                 ones_.size() * sizeof(float), stream_),
               "cuMemcpyAsync");
  };
  const float one = 1.0F;
  const float zero = 0.0F;
  copy(a, ones_.data());
  copy(b, ones_.data());
  check_cublas(cuda.sgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b, n, a, n, &zero, c, n), "cublasSgemm");
  copy(staged_.data(), c);
  wait_for(stream_);
  std::copy_n(static_cast<const float*>(staged_.data()), result_.size(), result_.begin());
  if (result_.back() != static_cast<float>(n))
    give_up_on("the product is wrong");
}

} // namespace gpuactors::bench
