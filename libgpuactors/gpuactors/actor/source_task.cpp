// Builds and checks source tasks.
#include <gpuactors/actor/source_task.hpp>
#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

namespace gpuactors {

// -- SourceTask -----------------------------------------------------------------------------------

namespace {

void set(v1::SourceExtent& extent, const std::array<unsigned, 3>& size) {
  extent.set_x(size[0]);
  extent.set_y(size[1]);
  extent.set_z(size[2]);
}

} // namespace

SourceTask::SourceTask(KernelSource kernel, const LaunchShape& shape) {
  message_.set_source(std::move(kernel.source));
  message_.set_kernel(std::move(kernel.name));
  for (auto& option : kernel.options)
    message_.add_options(std::move(option));
  set(*message_.mutable_grid(), shape.grid);
  set(*message_.mutable_block(), shape.block);
  message_.set_shared_bytes(shape.shared_bytes);
}

SourceTask& SourceTask::in(const v1::TensorRef& tensor) {
  *message_.add_arguments()->mutable_in()->mutable_ref() = tensor;
  return *this;
}

SourceTask& SourceTask::in_out(const v1::TensorRef& tensor) {
  *message_.add_arguments()->mutable_in_out()->mutable_ref() = tensor;
  return *this;
}

SourceTask& SourceTask::out(DType dtype, const std::vector<std::int64_t>& shape) {
  auto& tensor = *message_.add_arguments()->mutable_out();
  tensor.set_dtype(static_cast<v1::DType>(dtype));
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  return *this;
}

SourceTask& SourceTask::scalar(std::int32_t value) {
  message_.add_arguments()->mutable_scalar()->set_i32(value);
  return *this;
}

SourceTask& SourceTask::scalar(std::uint32_t value) {
  message_.add_arguments()->mutable_scalar()->set_u32(value);
  return *this;
}

SourceTask& SourceTask::scalar(std::int64_t value) {
  message_.add_arguments()->mutable_scalar()->set_i64(value);
  return *this;
}

SourceTask& SourceTask::scalar(std::uint64_t value) {
  message_.add_arguments()->mutable_scalar()->set_u64(value);
  return *this;
}

SourceTask& SourceTask::scalar(float value) {
  message_.add_arguments()->mutable_scalar()->set_f32(value);
  return *this;
}

SourceTask& SourceTask::scalar(double value) {
  message_.add_arguments()->mutable_scalar()->set_f64(value);
  return *this;
}

// -- checks ---------------------------------------------------------------------------------------

namespace {

/// Compiler options that a task may use, because they concern its code alone: others read and write files of the node.
/// Options that end with = or are one letter take a value.
constexpr std::string_view allowed_options =
    "-D -U -I --define-macro= --undefine-macro= --include-path= -std= --std= --fmad= --ftz= --prec-div= --prec-sqrt= "
    "-maxrregcount= --maxrregcount= -use_fast_math --use_fast_math -lineinfo --generate-line-info -default-device "
    "--restrict --disable-warnings";

bool is_allowed(std::string_view option) {
  std::istringstream words{std::string{allowed_options}};
  for (std::string allowed; words >> allowed;) {
    const bool takes_value = allowed.size() == 2 || allowed.back() == '=';
    if (takes_value ? option.starts_with(allowed) && option.size() > allowed.size() : option == allowed)
      return true;
  }
  return false;
}

Result<void> check_code(const v1::SourceTask& task) {
  if (task.source().empty() || task.kernel().empty())
    return fail(Errc::invalid_argument,
                fmt::format("{} is empty: CUDA C++ source and the name of a kernel in it are expected",
                            task.source().empty() ? "source" : "kernel"));
  if (static_cast<std::size_t>(task.options_size()) > limits::source_options)
    return fail(Errc::invalid_argument,
                fmt::format("{} options: at most {} are allowed", task.options_size(), limits::source_options));
  std::size_t bytes = task.source().size() + task.kernel().size();
  for (const auto& option : task.options()) {
    bytes += option.size();
    if (!is_allowed(option))
      return fail(Errc::invalid_argument,
                  fmt::format("the option \"{}\" is not for tasks, nor without its value; there are: {}", option,
                              allowed_options));
  }
  if (bytes > limits::source_bytes)
    return fail(Errc::invalid_argument, fmt::format("the source with its options has {} B: at most {} are allowed",
                                                    bytes, limits::source_bytes));
  return {};
}

template <class T>
bool is_in_range(double value) {
  return !std::isfinite(value) || std::abs(value) <= static_cast<double>(std::numeric_limits<T>::max());
}

/// Returns whether the element type can hold the value: integers exactly, floating-point numbers within their range.
bool holds(v1::DType dtype, double value) {
  switch (dtype) {
  case v1::F32:
    return is_in_range<float>(value);
  case v1::F16:
    return is_in_range<Float16>(value);
  case v1::BF16:
    return is_in_range<BFloat16>(value);
  case v1::F64:
    return true;
  case v1::I32:
    return value == std::trunc(value) && std::abs(value) <= 2147483648.0 && value != 2147483648.0;
  case v1::I64:
    return value == std::trunc(value) && std::abs(value) <= 9007199254740992.0;
  default:
    return value == std::trunc(value) && value >= 0 && value <= 255;
  }
}

/// @returns the number of elements.
Result<std::size_t> check_shape(const std::string& name, const v1::SourceTensor& tensor) {
  if (!v1::DType_IsValid(tensor.dtype()) || tensor.dtype() == v1::DTYPE_UNSPECIFIED)
    return fail(Errc::invalid_argument,
                fmt::format("{} has no dtype: F32, F64, F16, BF16, I32, I64 or U8 is expected", name));
  if (tensor.shape().empty() || static_cast<std::size_t>(tensor.shape_size()) > limits::tensor_rank)
    return fail(Errc::invalid_argument, fmt::format("{} has {} dimensions: 1 to {} are expected", name,
                                                    tensor.shape_size(), limits::tensor_rank));
  std::int64_t count = 1;
  for (const auto dimension : tensor.shape())
    if (dimension < 1 || __builtin_mul_overflow(count, dimension, &count)
        || count > std::numeric_limits<std::int64_t>::max() / 8)
      return fail(Errc::invalid_argument,
                  fmt::format("the shape [{}] of {} is none: dimensions of at least 1, and a size in bytes that 63 "
                              "bits hold, are expected",
                              fmt::join(tensor.shape(), ", "), name));
  return static_cast<std::size_t>(count);
}

/// @returns how many values the message carries for the tensor.
Result<std::size_t> check_tensor(const std::string& name, const v1::SourceTensor& tensor, bool is_out) {
  if (tensor.has_ref()) {
    if (is_out || tensor.values_size() > 0 || tensor.shape_size() > 0)
      return fail(Errc::invalid_argument,
                  fmt::format("{} has a reference beside {}", name,
                              is_out ? "being made for the kernel: in_out reads and writes a tensor that there is"
                                     : "a shape or values of its own: one of them is expected"));
    return 0;
  }
  GPUACTORS_LET(count, check_shape(name, tensor));
  const auto given = static_cast<std::size_t>(tensor.values_size());
  if (is_out && given > 0)
    return fail(Errc::invalid_argument, fmt::format("{} has values: it is made for the kernel, all zero", name));
  if (!is_out && given != count)
    return fail(Errc::invalid_argument,
                fmt::format("{} has neither a reference nor as many values as its shape [{}] says: {} and not {}", name,
                            fmt::join(tensor.shape(), ", "), count, given));
  for (const auto value : tensor.values())
    if (!holds(tensor.dtype(), value))
      return fail(Errc::invalid_argument, fmt::format("{} is {} and has the value {}, which it cannot hold", name,
                                                      v1::DType_Name(tensor.dtype()), value));
  return given;
}

} // namespace

Result<void> check_source_task(const v1::SourceTask& task) {
  GPUACTORS_TRY(check_code(task));
  if (static_cast<std::size_t>(task.arguments_size()) > limits::source_arguments)
    return fail(Errc::invalid_argument, fmt::format("the kernel is given {} arguments: at most {} are allowed",
                                                    task.arguments_size(), limits::source_arguments));
  std::size_t values = 0;
  for (int i = 0; i < task.arguments_size(); ++i) {
    const auto& argument = task.arguments(i);
    const auto name = fmt::format("argument {}", i);
    if (argument.kind_case() == v1::SourceArgument::KIND_NOT_SET
        || (argument.has_scalar() && argument.scalar().type_case() == v1::SourceScalar::TYPE_NOT_SET))
      return fail(Errc::invalid_argument,
                  fmt::format("{} is empty: a tensor (in, in_out, out) or a scalar with its type (i32, u32, i64, u64, "
                              "f32, f64) is expected",
                              name));
    if (argument.has_scalar())
      continue;
    const auto& tensor = argument.has_in() ? argument.in() : argument.has_in_out() ? argument.in_out() : argument.out();
    GPUACTORS_LET(count, check_tensor(name, tensor, argument.has_out()));
    values += count;
  }
  if (values > limits::source_values)
    return fail(Errc::invalid_argument,
                fmt::format("the arguments carry {} values: at most {} are allowed; put larger tensors and send "
                            "references",
                            values, limits::source_values));
  return {};
}

} // namespace gpuactors
