#include "script_module.hpp"

#include "torch_errors.hpp"

#include <gpuactors/base/clock.hpp>
#include <gpuactors/base/limits.hpp>

#include <apps/serve/protocol/data_type.hpp>

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

namespace torchscript {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;
using serve::DataType;

namespace {

constexpr std::array<std::pair<DataType, at::ScalarType>, 10> types{{
    {DataType::boolean, at::kBool},
    {DataType::uint8, at::kByte},
    {DataType::int8, at::kChar},
    {DataType::int16, at::kShort},
    {DataType::int32, at::kInt},
    {DataType::int64, at::kLong},
    {DataType::fp16, at::kHalf},
    {DataType::bf16, at::kBFloat16},
    {DataType::fp32, at::kFloat},
    {DataType::fp64, at::kDouble},
}};

/// The type of libtorch's that `is_torch_type` has promised.
at::ScalarType torch_type(DataType type) {
  return std::find_if(types.begin(), types.end(), [type](const auto& pair) { return pair.first == type; })->second;
}

std::optional<DataType> protocol_type(at::ScalarType type) {
  for (const auto& [protocol, torch] : types)
    if (torch == type)
      return protocol;
  return std::nullopt;
}

std::int64_t lap(gpuactors::TimePoint& start) {
  const auto before = std::exchange(start, gpuactors::Clock::now());
  return std::chrono::duration_cast<std::chrono::nanoseconds>(start - before).count();
}

/// Has libtorch's loops on this thread use `count` threads. OpenMP keeps the number for each thread, and libtorch sets
/// it to that of the whole process at a thread's first look: that must have been before.
void use_threads(int count) {
  static std::once_flag once;
  std::call_once(once, [] {
    // What is started by torch.jit.fork runs beside the caller; one thread for all of it is as few as there can be.
    try {
      at::set_num_interop_threads(1);
    } catch (const c10::Error&) {
      // Somebody else in this process has chosen, or used them.
    }
    // OpenBLAS has one number for the process, as many as the machine has cores. Host devices set it too, when they
    // first multiply, and share products out themselves.
    if (auto* blas = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD); blas != nullptr)
      if (auto* set = dlsym(blas, "openblas_set_num_threads"); set != nullptr)
        reinterpret_cast<void (*)(int)>(set)(1);
  });
  static_cast<void>(at::get_num_threads());
  at::set_num_threads(count);
}

/// Reads a file that lies in memory.
class SpanReader final : public caffe2::serialize::ReadAdapterInterface {
public:
  explicit SpanReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {
    // nop
  }

  std::size_t size() const override {
    return bytes_.size();
  }

  std::size_t read(std::uint64_t position, void* target, std::size_t count, const char* /*what*/) const override {
    if (position >= bytes_.size())
      return 0;
    const auto part = bytes_.subspan(position).first(std::min<std::size_t>(count, bytes_.size() - position));
    std::memcpy(target, part.data(), part.size());
    return part.size();
  }

private:
  std::span<const std::uint8_t> bytes_;
};

std::vector<std::int64_t> shape_of(const NamedRows& rows, std::int64_t count) {
  std::vector<std::int64_t> shape{count};
  shape.insert(shape.end(), rows.row_shape.begin(), rows.row_shape.end());
  return shape;
}

/// Checks that `forward` can be called with so many tensors.
Result<void> check_schema(const torch::jit::Module& module, const std::vector<NamedRows>& inputs) {
  const auto forward = module.find_method("forward");
  if (!forward)
    return fail(Errc::invalid_argument, "the module has no method forward");
  const auto& arguments = forward->function().getSchema().arguments();
  const auto most = arguments.size() - 1; // without self
  std::size_t least = 0;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < most; ++i) {
    const auto& argument = arguments[i + 1];
    least += argument.default_value() ? 0 : 1;
    names.push_back(argument.name());
    if (i < inputs.size() && argument.type()->kind() != c10::TypeKind::TensorType)
      return fail(Errc::invalid_argument,
                  fmt::format("forward takes the argument {} as {}: inputs are tensors (Tensor)", argument.name(),
                              argument.type()->annotation_str()));
  }
  if (inputs.size() >= least && inputs.size() <= most)
    return {};
  return fail(Errc::invalid_argument,
              fmt::format("forward takes {}{} tensors ({}), and the setting inputs has {}", least,
                          most == least ? "" : fmt::format(" to {}", most), fmt::join(names, ", "), inputs.size()));
}

/// The tensors that `forward` has answered.
Result<std::vector<at::Tensor>> tensors_in(const c10::IValue& answer) {
  std::vector<at::Tensor> tensors;
  if (answer.isTensor()) {
    tensors.push_back(answer.toTensor());
    return tensors;
  }
  if (answer.isTensorList())
    return answer.toTensorVector();
  if (answer.isTuple()) {
    const auto tuple = answer.toTuple();
    for (const auto& element : tuple->elements()) {
      if (!element.isTensor())
        return fail(Errc::invalid_argument, fmt::format("forward answers a tuple with {} in it: only tensors can be "
                                                        "outputs",
                                                        element.tagKind()));
      tensors.push_back(element.toTensor());
    }
    return tensors;
  }
  return fail(Errc::invalid_argument, fmt::format("forward answers {}: a tensor, or a tuple or list of tensors, is "
                                                  "expected",
                                                  answer.tagKind()));
}

/// What is wrong with a tensor that should have `count` rows of what `rows` says; empty if nothing is.
std::string mismatch(const at::Tensor& tensor, const NamedRows& rows, std::int64_t count) {
  const auto wanted = shape_of(rows, count);
  if (tensor.defined() && tensor.scalar_type() == torch_type(*rows.type) && tensor.sizes() == at::IntArrayRef{wanted})
    return {};
  const auto has = tensor.defined()
                       ? fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ","))
                       : std::string{"nothing"};
  return fmt::format("output \"{}\" is {} for {} rows: {} [{}] is expected", rows.name, has, count,
                     c10::toString(torch_type(*rows.type)), fmt::join(wanted, ","));
}

/// Says what an output is by the answer to one row.
Result<NamedRows> describe_output(const at::Tensor& tensor, std::string name) {
  const auto what = fmt::format("output \"{}\"", name);
  const auto wrong = [&](const std::string& why) {
    return fail(Errc::invalid_argument, fmt::format("{} {}", what, why));
  };
  if (!tensor.defined() || tensor.layout() != at::kStrided)
    return wrong("is no dense tensor");
  const auto type = protocol_type(tensor.scalar_type());
  if (!type)
    return wrong(fmt::format("has elements of the type {}, which the protocol does not have",
                             c10::toString(tensor.scalar_type())));
  const auto sizes = tensor.sizes();
  if (sizes.empty() || sizes[0] != 1)
    return wrong(fmt::format("has the shape [{}] for one row of inputs: the first dimension must be the rows",
                             fmt::join(sizes, ",")));
  NamedRows rows{std::move(name), type, {sizes.begin() + 1, sizes.end()}};
  if (sizes.size() > gpuactors::limits::tensor_rank)
    return wrong(
        fmt::format("has {} dimensions: at most {} are allowed", sizes.size(), gpuactors::limits::tensor_rank));
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()
      || tensor.nbytes() > gpuactors::limits::served_batch_bytes)
    return wrong(fmt::format("has the shape [{}] for one row: 1 to {} bytes are expected", fmt::join(sizes, ","),
                             gpuactors::limits::served_batch_bytes));
  return rows;
}

} // namespace

// -- state ---------------------------------------------------------------------------------------

struct ScriptModule::State {
  State(ModuleOptions its_options, std::shared_ptr<gpuactors::Quota> quota)
    : options(std::move(its_options)), memory(std::move(quota)) {
    // nop
  }

  /// Runs `work`, which calls libtorch and returns a `Result`. Its memory counts, and what it throws becomes an error.
  template <class Work>
  auto guarded(Work work) -> decltype(work()) {
    LeaseMemory::Use use{memory};
    try {
      return work();
    } catch (...) {
      return fail(error_of_current(memory, options.title));
    }
  }

  Result<void> read(std::span<const std::uint8_t> file) {
    return guarded([&]() -> Result<void> {
      try {
        module = torch::jit::load(std::make_shared<SpanReader>(file), at::kCPU);
      } catch (const c10::Error& error) {
        if (memory.refused())
          throw;
        return fail(Errc::invalid_argument,
                    fmt::format("the file of {} B is no TorchScript that this libtorch reads, as torch.jit.save writes "
                                "it: {}",
                                file.size(), text_of(error)));
      }
      module.eval();
      return check_schema(module, options.inputs);
    });
  }

  /// Runs the module. The tensors are dense, contiguous and on the CPU.
  Result<std::vector<at::Tensor>> forward(std::vector<c10::IValue> arguments) {
    GPUACTORS_LET(tensors, tensors_in(module.forward(std::move(arguments))));
    for (auto& tensor : tensors)
      if (tensor.defined() && tensor.layout() == at::kStrided)
        tensor = tensor.resolve_neg().contiguous();
    return std::move(tensors);
  }

  Result<std::vector<at::Tensor>> run_zeros(std::int64_t rows) {
    return guarded([&] {
      c10::InferenceMode inference;
      std::vector<c10::IValue> arguments;
      for (const auto& input : options.inputs)
        arguments.emplace_back(at::zeros(shape_of(input, rows), torch_type(*input.type)));
      return forward(std::move(arguments));
    });
  }

  Result<void> name_outputs(const std::vector<at::Tensor>& tensors) {
    auto named = std::exchange(options.outputs, {});
    if (!named.empty() && named.size() != tensors.size())
      return fail(Errc::invalid_argument, fmt::format("forward answers {} tensors, and the setting outputs has {}",
                                                      tensors.size(), named.size()));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      auto name = !named.empty()        ? named[i].name
                  : tensors.size() == 1 ? std::string{"output"}
                                        : fmt::format("output_{}", i);
      GPUACTORS_LET(output, describe_output(tensors[i], std::move(name)));
      if (!named.empty() && named[i].type && named[i] != output)
        return fail(Errc::invalid_argument, fmt::format("the setting outputs says {}, and forward answers {}",
                                                        to_string(named[i]), to_string(output)));
      options.outputs.push_back(std::move(output));
    }
    return {};
  }

  /// The most rows that the server sends.
  [[nodiscard]] std::int64_t most_rows() const {
    std::size_t row = 1;
    for (const auto* tensors : {&options.inputs, &options.outputs}) {
      std::size_t sum = 0;
      for (const auto& tensor : *tensors)
        sum += tensor.row_bytes();
      row = std::max(row, sum);
    }
    const auto fitting = static_cast<std::int64_t>(gpuactors::limits::served_batch_bytes / row);
    return std::clamp<std::int64_t>(fitting, 1, options.max_rows);
  }

  Result<void> check_outputs(const std::vector<at::Tensor>& tensors, std::int64_t rows, Errc code) const {
    if (tensors.size() != options.outputs.size())
      return fail(code, fmt::format("{}: forward answered {} tensors for {} rows, and {} for zeros", options.title,
                                    tensors.size(), rows, options.outputs.size()));
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (auto wrong = mismatch(tensors[i], options.outputs[i], rows); !wrong.empty())
        return fail(code, fmt::format("{}: {}", options.title, wrong));
    return {};
  }

  /// A tensor of its own: a module may change its inputs, or keep them, and a batch may be sent again.
  at::Tensor copy_of(const NamedRows& input, std::span<const std::byte> bytes, std::int64_t rows) const {
    auto tensor = at::empty(shape_of(input, rows), torch_type(*input.type));
    std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
    if (*input.type == DataType::boolean) // clients may send any byte, of which C++ allows two
      for (auto& byte : std::span{static_cast<std::uint8_t*>(tensor.data_ptr()), bytes.size()})
        byte = byte != 0 ? 1 : 0;
    return tensor;
  }

  Result<void> check_batch(std::int64_t rows, const gpuactors::ServedInputs& inputs) const {
    if (rows < 1 || rows > options.max_rows || inputs.size() != options.inputs.size())
      return fail(Errc::invalid_argument,
                  fmt::format("{}: a batch of {} rows of {} inputs: 1 to {} rows of {} are expected", options.title,
                              rows, inputs.size(), options.max_rows, options.inputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& input = options.inputs[i];
      if (const auto wanted = static_cast<std::size_t>(rows) * input.row_bytes(); inputs[i].size() != wanted)
        return fail(Errc::invalid_argument, fmt::format("{}: input \"{}\" has {} bytes for {} rows: {} are expected",
                                                        options.title, input.name, inputs[i].size(), rows, wanted));
    }
    return {};
  }

  ModuleOptions options;
  LeaseMemory memory;
  torch::jit::Module module;
};

// -- module --------------------------------------------------------------------------------------

ScriptModule::ScriptModule(std::unique_ptr<State> state) : state_(std::move(state)) {
  // nop
}

ScriptModule::ScriptModule(ScriptModule&&) noexcept = default;
ScriptModule& ScriptModule::operator=(ScriptModule&&) noexcept = default;
ScriptModule::~ScriptModule() = default;

const std::vector<NamedRows>& ScriptModule::inputs() const noexcept {
  return state_->options.inputs;
}

int ScriptModule::threads() const {
  return at::get_num_threads();
}

const std::vector<NamedRows>& ScriptModule::outputs() const noexcept {
  return state_->options.outputs;
}

Result<ScriptModule> ScriptModule::load(std::span<const std::uint8_t> file, ModuleOptions options,
                                        std::shared_ptr<gpuactors::Quota> quota) {
  GPUACTORS_TRY(LeaseMemory::check_installed());
  auto state = std::make_unique<State>(std::move(options), std::move(quota));
  use_threads(state->options.threads);
  const auto& title = state->options.title;
  const auto titled = [&title](const gpuactors::Error& error) {
    return fail(error.code(),
                error.message().starts_with(title) ? error.message() : fmt::format("{}: {}", title, error.message()));
  };
  if (auto read = state->read(file); !read)
    return titled(read.error());
  auto one = state->run_zeros(1);
  if (!one)
    return titled(one.error());
  if (auto named = state->name_outputs(*one); !named)
    return titled(named.error());
  one = std::vector<at::Tensor>{};
  // Twice: the interpreter looks on at the first run and then rebuilds the code, which takes time and memory too.
  const auto most = state->most_rows();
  for (int i = 0; i < 2; ++i) {
    auto many = state->run_zeros(most);
    if (!many)
      return titled(many.error());
    GPUACTORS_TRY(state->check_outputs(*many, most, Errc::invalid_argument));
  }
  return ScriptModule{std::move(state)};
}

Result<gpuactors::v1::ReplicaReply> ScriptModule::infer(const gpuactors::v1::ReplicaBatch& batch,
                                                        gpuactors::TensorStore& tensors) {
  auto& state = *state_;
  GPUACTORS_LET(inputs, gpuactors::ServedInputs::of(batch, tensors));
  GPUACTORS_TRY(state.check_batch(batch.rows(), inputs));
  return state.guarded([&]() -> Result<gpuactors::v1::ReplicaReply> {
    c10::InferenceMode inference;
    auto start = gpuactors::Clock::now();
    std::vector<c10::IValue> arguments;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      arguments.emplace_back(state.copy_of(state.options.inputs[i], inputs[i], batch.rows()));
    const auto input_ns = lap(start);
    auto outputs = state.forward(std::move(arguments));
    if (!outputs)
      return fail(Errc::task_failed, fmt::format("{}: {}", state.options.title, outputs.error().message()));
    const auto infer_ns = lap(start);
    GPUACTORS_TRY(state.check_outputs(*outputs, batch.rows(), Errc::task_failed));
    std::vector<std::size_t> sizes;
    for (const auto& tensor : *outputs)
      sizes.push_back(tensor.nbytes());
    GPUACTORS_LET(served, gpuactors::ServedOutputs::make(sizes, tensors));
    for (std::size_t i = 0; i < sizes.size(); ++i)
      std::memcpy(served[i].data(), (*outputs)[i].data_ptr(), sizes[i]);
    auto reply = std::move(served).finish();
    reply.set_input_ns(input_ns);
    reply.set_infer_ns(infer_ns);
    reply.set_output_ns(lap(start));
    return reply;
  });
}

} // namespace torchscript
