// Matrix products on one device, by handles of cuBLAS that all its backends share.
#pragma once

#include <gpuactors/device/backend.hpp>
#include <gpuactors/device/cuda/cublas.hpp>
#include <gpuactors/device/cuda/primary.hpp>

#include <memory>
#include <mutex>
#include <vector>

namespace gpuactors::cuda {

/// Lends a handle for each product and keeps it for the next, of whomever: a handle takes memory that no quota counts,
/// and to end one waits for all that runs on the device. So there are as many as products were started at once, and
/// they end with the device. Not one for all: a product that waits for room in its queue would hold up everybody's.
/// Any thread.
class Products {
public:
  /// What a backend's products are started with.
  struct Place {
    CUstream stream = nullptr;
    /// Device memory that cuBLAS uses instead of its own.
    void* workspace = nullptr;
    std::size_t workspace_bytes = 0;
    /// How many SMs the stream runs on; 0: the whole device.
    int sms = 0;
  };

  Products(const Cublas& cublas, std::shared_ptr<Primary> primary) : cublas_(cublas), primary_(std::move(primary)) {
    // nop
  }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  /// Nothing runs any more.
  ~Products();

  /// Starts a product. The primary context is current.
  Result<void> start(const Gemm& product, const Place& place);

  /// Lends a handle for several products, until the last copy of the result is gone, and sees to it that another one is
  /// idle then: while work is captured none should be made. The primary context is current.
  Result<std::shared_ptr<cublasContext>> reserve();

  /// Starts a product on a handle that is lent. The primary context is current.
  Result<void> start(const Gemm& product, const Place& place, cublasHandle_t handle) const;

private:
  Result<cublasHandle_t> take();
  void give_back(cublasHandle_t handle);
  /// Starts a product of f16 or bf16 on a handle that is set up.
  Result<void> start_16_bit(cublasHandle_t handle, const Gemm& product) const;

  const Cublas& cublas_;
  std::shared_ptr<Primary> primary_;
  std::mutex mutex_;
  /// That are not lent just now. Guarded by `mutex_`.
  std::vector<cublasHandle_t> idle_;
};

} // namespace gpuactors::cuda
