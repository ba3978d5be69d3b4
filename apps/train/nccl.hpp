// NCCL, NVIDIA's library for sums over GPUs: what is used of it, found when the program runs. Neither its headers nor
// the library are needed to build or to start.
#pragma once

#include <gpuactors/base/result.hpp>

#include <array>
#include <climits>
#include <cstddef>
#include <string>

namespace train {

/// The functions of libnccl.so.2, with the types of its interface since 2.14, and how errors are told.
class Nccl {
public:
  enum Code : int { success = 0, in_progress = 7 };
  enum Type : int { float32 = 7, float64 = 8 };
  static constexpr int sum = 0;

  /// The name of a group of members, made by one of them.
  struct Id {
    std::array<char, 128> bytes;
  };

  /// How a communicator is made: here, without waiting for the others.
  struct Config {
    std::size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef;
    unsigned version = 21400;
    int blocking = 0;
    int unused = INT_MIN; // undefined, where later versions have a field
  };

  using Comm = void*;

  /// Loads it once for the process. Any thread.
  /// @returns `unsupported` where there is none, or one before 2.14.
  static gpuactors::Result<const Nccl*> load();

  /// What went wrong in a call of `function`.
  [[nodiscard]] gpuactors::Error error(const char* function, int code) const;

  /// 22105 for 2.21.5.
  int version = 0;

  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(Id*) = nullptr;
  int (*comm_init_rank_config)(Comm*, int members, Id, int rank, Config*) = nullptr;
  int (*comm_get_async_error)(Comm, int*) = nullptr;
  int (*comm_abort)(Comm) = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t count, int type, int operation, Comm, void* stream) = nullptr;
  const char* (*get_error_string)(int) = nullptr;

private:
  static gpuactors::Result<Nccl> open();
};

/// The version of NCCL that this process can use; 0: none.
[[nodiscard]] int nccl_version();

/// A new name for a group. @returns what `Nccl::load` says, or NCCL.
gpuactors::Result<std::string> make_nccl_id();

} // namespace train
