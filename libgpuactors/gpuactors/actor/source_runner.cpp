// Runs source tasks: compiles the kernel, copies the arguments to the device, launches, copies the outputs back.
#include <gpuactors/actor/registry.hpp>
#include <gpuactors/actor/source_task.hpp>
#include <gpuactors/actor/tensor_store.hpp>
#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuactors {

namespace {

/// A double holds every integer up to this magnitude exactly.
constexpr auto whole_in_double = std::int64_t{1} << 53;

/// Measures the seconds from one call of `lap` to the next.
class LapTimer {
public:
  double lap() {
    const auto now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

private:
  TimePoint last_ = Clock::now();
};

unsigned at_least_1(std::uint32_t size) {
  return size == 0 ? 1 : size;
}

std::array<unsigned, 3> to_extent(const v1::SourceExtent& extent) {
  return {at_least_1(extent.x()), at_least_1(extent.y()), at_least_1(extent.z())};
}

KernelArgument to_argument(const v1::SourceScalar& scalar) {
  switch (scalar.type_case()) {
  case v1::SourceScalar::kI32:
    return scalar.i32();
  case v1::SourceScalar::kU32:
    return scalar.u32();
  case v1::SourceScalar::kI64:
    return std::int64_t{scalar.i64()};
  case v1::SourceScalar::kU64:
    return std::uint64_t{scalar.u64()};
  case v1::SourceScalar::kF32:
    return scalar.f32();
  default:
    return scalar.f64();
  }
}

/// Calls `function` with a value of the element type.
template <class F>
auto with_element_of(DType dtype, F function) {
  switch (dtype) {
  case DType::f32:
    return function(float{});
  case DType::f64:
    return function(double{});
  case DType::f16:
    return function(Float16{});
  case DType::bf16:
    return function(BFloat16{});
  case DType::i32:
    return function(std::int32_t{});
  case DType::i64:
    return function(std::int64_t{});
  default:
    return function(std::uint8_t{});
  }
}

/// Returns a tensor on the device with the values of `source`.
Result<Tensor> upload(Stream& stream, const v1::SourceTensor& source) {
  const std::vector<std::int64_t> shape{source.shape().begin(), source.shape().end()};
  return with_element_of(static_cast<DType>(source.dtype()), [&](auto element) {
    std::vector<decltype(element)> values;
    values.reserve(static_cast<std::size_t>(source.values_size()));
    for (const auto value : source.values())
      values.push_back(static_cast<decltype(element)>(value));
    return stream.tensor_from(values, shape);
  });
}

/// Returns the tensor with its elements as numbers in a message.
Result<v1::SourceTensor> download(Stream& stream, const Tensor& tensor) {
  v1::SourceTensor result;
  result.set_dtype(static_cast<v1::DType>(tensor.dtype()));
  result.mutable_shape()->Add(tensor.shape().begin(), tensor.shape().end());
  GPUACTORS_TRY(with_element_of(tensor.dtype(), [&](auto element) -> Result<void> {
    GPUACTORS_LET(values, stream.to_host<decltype(element)>(tensor));
    result.mutable_values()->Reserve(static_cast<int>(values.size()));
    for (const auto value : values) {
      if constexpr (std::is_same_v<decltype(element), std::int64_t>)
        if (value > whole_in_double || value < -whole_in_double)
          return fail(Errc::invalid_argument,
                      fmt::format("an output has the value {}, which an answer with return_values cannot hold: take it "
                                  "as a reference",
                                  value));
      result.add_values(static_cast<double>(value));
    }
    return {};
  }));
  return result;
}

/// One run of a source task.
class SourceRun {
public:
  SourceRun(TaskContext& context, const v1::SourceTask& task)
    : context_(context), task_(task), stream_(context.gpu().stream()) {
    // nop
  }

  SourceRun(const SourceRun&) = delete;
  SourceRun& operator=(const SourceRun&) = delete;

  /// Waits for queued copies, because the tensors that they read must outlive them.
  ~SourceRun() {
    (void)stream_.synchronize();
  }

  Result<v1::SourceResult> run() {
    LapTimer timer;
    GPUACTORS_LET(kernel, context_.gpu().compile(
                              {task_.source(), task_.kernel(), {task_.options().begin(), task_.options().end()}}));
    result_.set_compile_seconds(timer.lap());
    if (!kernel.loaded().arguments)
      return fail(Errc::unsupported, "the CUDA driver of this node cannot say what a kernel's arguments are, and "
                                     "unchecked ones could end the process: CUDA 12.4 or later is needed");
    if (context_.stop_requested())
      return fail(Errc::cancelled, "asked to stop before the kernel was started");
    for (int i = 0; i < task_.arguments_size(); ++i)
      if (auto added = add(task_.arguments(i)); !added)
        return fail(added.error().code(), fmt::format("argument {}: {}", i, added.error().message()));
    GPUACTORS_TRY(check_outputs());
    GPUACTORS_TRY(stream_.synchronize());
    result_.set_upload_seconds(timer.lap());
    GPUACTORS_TRY(stream_.launch(kernel, {to_extent(task_.grid()), to_extent(task_.block()), task_.shared_bytes()},
                                 std::span{arguments_}));
    GPUACTORS_TRY(stream_.synchronize());
    result_.set_compute_seconds(timer.lap());
    GPUACTORS_TRY(bring_back());
    result_.set_download_seconds(timer.lap());
    describe_place();
    return std::move(result_);
  }

private:
  Result<void> add(const v1::SourceArgument& argument) {
    if (argument.has_scalar()) {
      arguments_.push_back(to_argument(argument.scalar()));
      return {};
    }
    const bool is_output = !argument.has_in();
    GPUACTORS_LET(tensor, argument.has_out()      ? zeros(argument.out())
                          : argument.has_in_out() ? tensor_of(argument.in_out(), true)
                                                  : tensor_of(argument.in(), false));
    arguments_.emplace_back(tensor.raw());
    tensors_.push_back(std::move(tensor));
    if (is_output)
      outputs_.push_back(tensors_.size() - 1);
    return {};
  }

  /// @param own whether the kernel may write to the tensor.
  Result<Tensor> tensor_of(const v1::SourceTensor& source, bool own) {
    if (!source.has_ref())
      return upload(stream_, source);
    GPUACTORS_LET(shared, context_.tensors().get(source.ref()));
    GPUACTORS_LET(tensor, shared.on(stream_));
    // A tensor that was on this device already is shared with its other readers, in any process: the kernel gets a
    // copy.
    if (!own || (!shared.view() && tensor.shared_memory() == nullptr))
      return std::move(tensor);
    GPUACTORS_LET(copy, stream_.tensor(tensor.dtype(), tensor.shape()));
    GPUACTORS_TRY(stream_.copy(copy, tensor));
    shared_.push_back(std::move(shared));
    return std::move(copy);
  }

  /// Returns a tensor of zeros, so that no kernel reads data that others have left in the memory.
  Result<Tensor> zeros(const v1::SourceTensor& source) {
    GPUACTORS_LET(tensor,
                  stream_.tensor(static_cast<DType>(source.dtype()), {source.shape().begin(), source.shape().end()}));
    GPUACTORS_TRY(stream_.zero(tensor));
    return std::move(tensor);
  }

  Result<void> check_outputs() const {
    std::size_t values = 0;
    for (const auto output : outputs_)
      values += static_cast<std::size_t>(tensors_[output].size());
    if (task_.return_values() && values > limits::source_values)
      return fail(Errc::invalid_argument, fmt::format("the outputs have {} values: return_values allows {}; take them "
                                                      "as references",
                                                      values, limits::source_values));
    return {};
  }

  Result<void> bring_back() {
    std::vector<Shared<Tensor>> kept;
    for (const auto output : outputs_) {
      if (task_.return_values()) {
        GPUACTORS_LET(tensor, download(stream_, tensors_[output]));
        *result_.add_outputs() = std::move(tensor);
      } else {
        GPUACTORS_LET(shared, context_.tensors().put_copy(tensors_[output], stream_));
        kept.push_back(std::move(shared));
      }
    }
    // Hands over only after the last step that can fail: a hand-over keeps its tensor until somebody takes it.
    for (auto& shared : kept)
      *result_.add_outputs()->mutable_ref() = std::move(shared).hand_over();
    return {};
  }

  void describe_place() {
    const auto& lease = context_.lease();
    result_.set_node(lease.node);
    result_.set_device(lease.devices.front().index);
    result_.set_share(lease.devices.front().share.to_double());
    result_.set_kind(std::string{to_string(context_.gpu().device().kind)});
  }

  TaskContext& context_;
  const v1::SourceTask& task_;
  Stream& stream_;
  std::vector<KernelArgument> arguments_;
  std::vector<Tensor> tensors_;
  /// Indices of the outputs in `tensors_`.
  std::vector<std::size_t> outputs_;
  /// Tensors that queued copies read, kept until the copies are done.
  std::vector<Shared<Tensor>> shared_;
  v1::SourceResult result_;
};

} // namespace

void define_source_task(TypeRegistry& registry) {
  define_task(
      SourceTask::type,
      [](TaskContext& context, const v1::SourceTask& task) -> Result<v1::SourceResult> {
        GPUACTORS_TRY(check_source_task(task));
        if (context.gpu_count() == 0)
          return fail(Errc::invalid_argument, "a kernel runs on a device and was given none: ask for one, whole (gpus "
                                              "1), in part (gpus 0.5) or by its memory");
        return SourceRun{context, task}.run();
      },
      registry)
      .needs({.gpus = 1});
}

} // namespace gpuactors
