// Source tasks: a program sends a kernel in CUDA C++ to a device of the cluster, where it is compiled and run. The
// program needs neither a compiler nor a device.
//
//   gpuactors::SourceTask task{{source, "scale<float>"}, {{4, 1, 1}, {256, 1, 1}, 0}};
//   task.in_out(x.ref()).scalar(2.0F).scalar(1000U);
//   auto reply = cluster.submit<gpuactors::v1::SourceResult>(task.type, task.message(), {.gpus = 0.5}).get();
//   auto scaled = cluster.get(reply->outputs(0).ref());
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/runtime_kernel.hpp>
#include <gpuactors/device/types.hpp>
#include <gpuactors/v1/source.pb.h>

#include <cstdint>
#include <vector>

namespace gpuactors {

class TypeRegistry;

/// Builds the message for the task: a kernel's source with its launch shape and arguments. Errors appear when the task
/// is submitted. One thread at a time.
class SourceTask {
public:
  /// The task type, which every program has.
  static constexpr const char* type = "gpuactors.source_kernel";

  explicit SourceTask(KernelSource kernel, const LaunchShape& shape = {});

  // Add the arguments of the kernel, in the order in which it declares them.

  /// Adds a pointer to a tensor that is only read.
  SourceTask& in(const v1::TensorRef& tensor);
  /// Adds a pointer to a copy of a tensor, which becomes an output.
  SourceTask& in_out(const v1::TensorRef& tensor);
  /// Adds a pointer to a new tensor of zeros, which becomes an output.
  SourceTask& out(DType dtype, const std::vector<std::int64_t>& shape);
  /// Adds a number.
  SourceTask& scalar(std::int32_t value);
  SourceTask& scalar(std::uint32_t value);
  SourceTask& scalar(std::int64_t value);
  SourceTask& scalar(std::uint64_t value);
  SourceTask& scalar(float value);
  SourceTask& scalar(double value);

  [[nodiscard]] const v1::SourceTask& message() const noexcept {
    return message_;
  }

private:
  v1::SourceTask message_;
};

/// Checks everything about a task that needs no compilation. Pure.
/// @returns `invalid_argument` with the problem and what is allowed.
Result<void> check_source_task(const v1::SourceTask& task);

/// Checks the code of a task from a client that may not read the node's files: the code includes no headers but the
/// compiler's own, and does not test which files exist. Pure.
/// @returns `permission_denied`, naming what such a client may not use.
Result<void> check_foreign_source(const v1::SourceTask& task);

/// Adds the task to a separate registry; the program's own (`TypeRegistry::global`) already has it.
void define_source_task(TypeRegistry& registry);

} // namespace gpuactors
