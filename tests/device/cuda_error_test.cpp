// What errors of CUDA mean, without CUDA.
#include <gpuactors/device/cuda/error_class.hpp>
#include <gpuactors/device/cuda_module.hpp>

#include <support/catch.hpp>

#include <set>

using namespace gpuactors;

TEST_CASE("sticky errors of the driver ask for a new process, whatever was called") {
  const std::set<int> sticky{4,   214, 220, 226, 700, 702, 709, 710, 714, 715,
                             716, 717, 718, 719, 721, 806, 810, 911, 999};
  for (int number = 1; number < 1000; ++number) {
    INFO(number);
    for (const auto otherwise : {Errc::launch_failed, Errc::copy_failed, Errc::internal}) {
      const auto code = cuda::classify_driver_error(number, otherwise);
      CHECK((code == Errc::context_lost) == (sticky.count(number) == 1));
      CHECK((remedy_of(code) == Remedy::replace_process) == (sticky.count(number) == 1 || code == Errc::device_lost));
    }
  }
}

TEST_CASE("errors after which the process goes on keep their meaning") {
  using cuda::classify_driver_error;
  CHECK(classify_driver_error(2, Errc::internal) == Errc::out_of_memory);
  CHECK(classify_driver_error(1, Errc::launch_failed) == Errc::launch_failed);
  CHECK(classify_driver_error(701, Errc::launch_failed) == Errc::launch_failed);
  CHECK(classify_driver_error(1, Errc::copy_failed) == Errc::copy_failed);
  CHECK(classify_driver_error(100, Errc::internal) == Errc::device_lost);
  CHECK(classify_driver_error(101, Errc::internal) == Errc::device_lost);
  CHECK(classify_driver_error(34, Errc::internal) == Errc::unsupported);
  CHECK(classify_driver_error(209, Errc::internal) == Errc::unsupported);
  for (const int not_now : {802, 803, 807})
    CHECK(classify_driver_error(not_now, Errc::internal) == Errc::unavailable);
}

TEST_CASE("errors of cuBLAS keep their meaning") {
  CHECK(cuda::classify_cublas_error(3) == Errc::out_of_memory);
  CHECK(cuda::classify_cublas_error(7) == Errc::invalid_argument);
  CHECK(cuda::classify_cublas_error(15) == Errc::unsupported);
  CHECK(cuda::classify_cublas_error(13) == Errc::launch_failed);
  CHECK(cuda::classify_cublas_error(14) == Errc::launch_failed);
}

TEST_CASE("a module that is not there, or is none, is one clear line") {
  const auto missing = load_cuda_module("/nowhere/libgpuactors_cuda.so");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code() == Errc::unsupported);
  CHECK(missing.error().message().find("the CUDA module is not installed") == 0);
  CHECK(missing.error().message().find('\n') == std::string::npos);
  const auto other = load_cuda_module("libm.so.6");
  REQUIRE_FALSE(other);
  CHECK(other.error().message().find("is no CUDA module of this version") != std::string::npos);
}

TEST_CASE("loading the module gives CUDA or says in one line why not, the same each time") {
  const auto first = load_cuda_module();
  const auto second = load_cuda_module();
  REQUIRE(first.has_value() == second.has_value());
  if (first) {
    CHECK((*first)->devices());
    return;
  }
  CHECK(first.error().code() == Errc::unsupported);
  CHECK_FALSE(first.error().message().empty());
  CHECK(first.error().message().find('\n') == std::string::npos);
  CHECK(first.error() == second.error());
}
