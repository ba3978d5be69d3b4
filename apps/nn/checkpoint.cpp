#include "checkpoint.hpp"

#include "copies.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace nn {

using gpuactors::DType;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::Tensor;

namespace {

constexpr std::string_view format_key = "gpuactors.format";
constexpr std::string_view format_name = "network 1";
constexpr std::string_view activation_key = "gpuactors.activation";
constexpr std::string_view input_scale_key = "gpuactors.input_scale";
constexpr std::string_view loss_key = "gpuactors.loss";
constexpr std::string_view optimizer_key = "gpuactors.optimizer";
constexpr std::string_view step_key = "gpuactors.step";
constexpr std::string_view seed_key = "gpuactors.seed";
constexpr std::string_view notes_prefix = "training.";

auto wrong_checkpoint(const std::filesystem::path& path, std::string_view why) {
  return gpuactors::fail(Errc::invalid_argument, fmt::format("{}: {}", path.string(), why));
}

/// An optimizer in one line; numbers in the shortest form that reads back as the same.
std::string describe(const Optimizer& optimizer) {
  if (optimizer.kind == OptimizerKind::adam)
    return fmt::format("adam rate={} beta1={} beta2={} epsilon={} weight_decay={}", optimizer.rate, optimizer.beta1,
                       optimizer.beta2, optimizer.epsilon, optimizer.weight_decay);
  return fmt::format("sgd rate={} momentum={} weight_decay={}", optimizer.rate, optimizer.momentum,
                     optimizer.weight_decay);
}

// -- writing -------------------------------------------------------------------------------------

/// Copies of device arrays on the host, kept until they are written.
class Snapshot {
public:
  explicit Snapshot(Network& network) : network_(network), under_way_(network.stream()) {
    // nop
  }

  /// Queues the copy of an array that has the layout of the parameters.
  Result<void> add(const std::string& prefix, const Tensor& values) {
    auto& bytes = copies_.emplace_back(std::make_unique<std::vector<std::byte>>(values.bytes()));
    GPUACTORS_TRY(network_.stream().download(bytes->data(), values.raw(), bytes->size()));
    const auto width = gpuactors::size_of(values.dtype());
    for (const auto& parameter : network_.parameters())
      arrays_.emplace(prefix + parameter.name,
                      NamedArray{values.dtype(), parameter.shape,
                                 std::span{*bytes}.subspan(parameter.offset * width, parameter.size * width)});
    return {};
  }

  /// Waits for the copies and writes them.
  Result<void> write(const std::filesystem::path& path, Metadata metadata) {
    const auto& spec = network_.spec();
    metadata.emplace(format_key, format_name);
    metadata.emplace(activation_key, to_string(spec.hidden));
    metadata.emplace(input_scale_key, fmt::format("{}", spec.input_scale));
    GPUACTORS_TRY(under_way_.finish());
    return write_safetensors(path, metadata, arrays_);
  }

private:
  Network& network_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> copies_;
  NamedArrays arrays_;
  Copies under_way_;
};

std::string memory_prefix(std::string_view name) {
  return fmt::format("optimizer.{}.", name);
}

// -- reading -------------------------------------------------------------------------------------

/// The type that a network computes in if a file has its parameters in `stored`.
DType computed_in(DType stored) {
  return stored == DType::f16 || stored == DType::bf16 ? DType::f32 : stored;
}

/// Copies elements of 16 bits as f32.
template <class T>
void widen(std::span<const std::byte> from, std::byte* to) {
  for (std::size_t at = 0; at < from.size(); at += sizeof(T), to += sizeof(float)) {
    T value;
    std::memcpy(&value, from.data() + at, sizeof value);
    const float wide = value;
    std::memcpy(to, &wide, sizeof wide);
  }
}

/// Copies an array as elements of `computed_in` its type.
void copy_elements(const NamedArray& array, std::byte* to) {
  if (array.dtype == DType::f16)
    widen<gpuactors::Float16>(array.bytes, to);
  else if (array.dtype == DType::bf16)
    widen<gpuactors::BFloat16>(array.bytes, to);
  else
    std::memcpy(to, array.bytes.data(), array.bytes.size());
}

/// Derives sizes and type from "layers.N.weight" and "layers.N.bias", and reads the rest.
Result<NetworkSpec> spec_of(const std::filesystem::path& path, const Safetensors& file) {
  const auto format = file.metadata.find(std::string{format_key});
  if (format == file.metadata.end() || format->second != format_name)
    return wrong_checkpoint(path, fmt::format("it is no checkpoint of a network: its metadata do not say {} \"{}\"",
                                              format_key, format_name));
  NetworkSpec spec;
  auto stored = spec.dtype;
  for (std::size_t layer = 0;; ++layer) {
    const auto weight = file.arrays.find(fmt::format("layers.{}.weight", layer));
    if (weight == file.arrays.end())
      break;
    const auto bias = file.arrays.find(fmt::format("layers.{}.bias", layer));
    const auto& shape = weight->second.shape;
    if (layer == 0 && shape.size() == 2) {
      spec.sizes.push_back(shape[1]);
      stored = weight->second.dtype;
    }
    if (shape.size() != 2 || shape[1] != spec.sizes.back() || weight->second.dtype != stored
        || bias == file.arrays.end() || bias->second.dtype != stored || bias->second.shape != std::vector{shape[0]})
      return wrong_checkpoint(
          path, fmt::format("the weight and bias of its layer {} do not fit each other, or the layer before", layer));
    spec.sizes.push_back(shape[0]);
  }
  spec.dtype = computed_in(stored);
  const auto activation = file.metadata.find(std::string{activation_key});
  if (spec.sizes.empty() || activation == file.metadata.end())
    return wrong_checkpoint(path, "it has no layers.0.weight, or its metadata have no activation");
  const auto hidden = parse_activation(activation->second);
  if (!hidden)
    return wrong_checkpoint(path, hidden.error().message());
  spec.hidden = *hidden;
  GPUACTORS_LET(scale, number_in<double>(file.metadata, input_scale_key, path));
  spec.input_scale = scale;
  if (const auto right = check(spec); !right)
    return wrong_checkpoint(path, right.error().message());
  return spec;
}

/// Whether arrays may have fewer bits in a file than in a network.
enum class Widening { allowed, refused };

/// The arrays of a file in the layout of the parameters.
Result<std::vector<std::byte>> gather(const std::filesystem::path& path, const Safetensors& file,
                                      const std::string& prefix, const Network& network, Widening widening) {
  const auto width = gpuactors::size_of(network.spec().dtype);
  std::vector<std::byte> bytes(parameter_elements(network.spec()) * width);
  for (const auto& parameter : network.parameters()) {
    const auto found = file.arrays.find(prefix + parameter.name);
    if (found == file.arrays.end() || computed_in(found->second.dtype) != network.spec().dtype
        || found->second.shape != parameter.shape)
      return wrong_checkpoint(
          path, fmt::format("it has no array {}{} of the shape that the network has", prefix, parameter.name));
    if (widening == Widening::refused && found->second.dtype != network.spec().dtype)
      return wrong_checkpoint(path, fmt::format("a training goes on with arrays in {} only, and its {}{} was rounded "
                                                "to {}: the file can be served, not learned from",
                                                gpuactors::to_string(network.spec().dtype), prefix, parameter.name,
                                                gpuactors::to_string(found->second.dtype)));
    copy_elements(found->second, bytes.data() + parameter.offset * width);
  }
  return bytes;
}

} // namespace

template <class T>
Result<T> number_in(const Metadata& metadata, std::string_view key, const std::filesystem::path& path) {
  const auto found = metadata.find(std::string{key});
  if (found == metadata.end())
    return wrong_checkpoint(path, fmt::format("its metadata have no {}", key));
  const auto& text = found->second;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    return wrong_checkpoint(path, fmt::format("its metadata have {}, which is no such number, as {}", text, key));
  return value;
}

template Result<std::uint64_t> number_in(const Metadata&, std::string_view, const std::filesystem::path&);
template Result<double> number_in(const Metadata&, std::string_view, const std::filesystem::path&);

Result<void> save_training(const std::filesystem::path& path, Trainer& trainer, std::uint64_t seed,
                           const Metadata& notes) {
  Snapshot snapshot{trainer.network()};
  GPUACTORS_TRY(snapshot.add("", trainer.network().values()));
  for (const auto& memory : trainer.memory())
    GPUACTORS_TRY(snapshot.add(memory_prefix(memory.name), memory.values));
  auto metadata = notes;
  metadata.emplace(loss_key, to_string(trainer.spec().loss));
  metadata.emplace(optimizer_key, describe(trainer.spec().optimizer));
  metadata.emplace(step_key, std::to_string(trainer.steps()));
  metadata.emplace(seed_key, std::to_string(seed));
  return snapshot.write(path, std::move(metadata));
}

Result<void> save_network(const std::filesystem::path& path, Network& network) {
  Snapshot snapshot{network};
  GPUACTORS_TRY(snapshot.add("", network.values()));
  return snapshot.write(path, {});
}

Result<Progress> load_training(const std::filesystem::path& path, Trainer& trainer) {
  GPUACTORS_LET(file, read_safetensors(path));
  GPUACTORS_LET(spec, spec_of(path, file));
  auto& network = trainer.network();
  spec.max_rows = network.spec().max_rows;
  if (!(spec == network.spec()))
    return wrong_checkpoint(
        path,
        fmt::format("it is of a network {} in {} with {} and inputs times {}, not of {} in {} with {} and inputs "
                    "times {}",
                    fmt::join(spec.sizes, ","), gpuactors::to_string(spec.dtype), to_string(spec.hidden),
                    spec.input_scale, fmt::join(network.spec().sizes, ","), gpuactors::to_string(network.spec().dtype),
                    to_string(network.spec().hidden), network.spec().input_scale));
  for (const auto& [key, wanted] : {std::pair{loss_key, std::string{to_string(trainer.spec().loss)}},
                                    std::pair{optimizer_key, describe(trainer.spec().optimizer)}}) {
    const auto found = file.metadata.find(std::string{key});
    if (found == file.metadata.end() || found->second != wanted)
      return wrong_checkpoint(path, fmt::format("it cannot be gone on with: its {} is \"{}\", not \"{}\"", key,
                                                found == file.metadata.end() ? "missing" : found->second, wanted));
  }
  Progress progress;
  GPUACTORS_LET(step, number_in<std::uint64_t>(file.metadata, step_key, path));
  GPUACTORS_LET(seed, number_in<std::uint64_t>(file.metadata, seed_key, path));
  progress.step = step;
  progress.seed = seed;
  for (const auto& [key, text] : file.metadata)
    if (key.starts_with(notes_prefix))
      progress.notes.emplace(key, text);
  // Everything is read before anything is changed.
  GPUACTORS_LET(values, gather(path, file, "", network, Widening::refused));
  std::vector<std::vector<std::byte>> remembered;
  for (const auto& memory : trainer.memory()) {
    GPUACTORS_LET(bytes, gather(path, file, memory_prefix(memory.name), network, Widening::refused));
    remembered.push_back(std::move(bytes));
  }
  auto& stream = network.stream();
  Copies copies{stream};
  GPUACTORS_TRY(stream.upload(network.values().raw(), values.data(), values.size()));
  for (std::size_t i = 0; i < remembered.size(); ++i)
    GPUACTORS_TRY(stream.upload(trainer.memory()[i].values.raw(), remembered[i].data(), remembered[i].size()));
  trainer.set_steps(step);
  GPUACTORS_TRY(copies.finish());
  return progress;
}

Result<NetworkSpec> read_spec(const std::filesystem::path& path) {
  GPUACTORS_LET(file, read_safetensors_head(path));
  return spec_of(path, file);
}

Result<Network> load_network(gpuactors::Stream& stream, const std::filesystem::path& path, std::int64_t max_rows) {
  GPUACTORS_LET(file, read_safetensors(path, Checksum::optional));
  GPUACTORS_LET(spec, spec_of(path, file));
  spec.max_rows = max_rows;
  GPUACTORS_LET(network, Network::make(stream, spec, 0));
  GPUACTORS_LET(values, gather(path, file, "", network, Widening::allowed));
  GPUACTORS_TRY(stream.upload(network.values().raw(), values.data(), values.size()));
  GPUACTORS_TRY(stream.synchronize());
  return std::move(network);
}

} // namespace nn
