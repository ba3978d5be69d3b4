// Placing the arrays of files in the tensors of a decoder.
#include <apps/llm/weights.hpp>
#include <apps/nn/files.hpp>
#include <apps/nn/safetensors.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace llm {

using namespace gpuactors;
namespace fs = std::filesystem;

namespace {

/// Where an array of a file goes.
struct Target {
  Tensor* tensor;
  std::vector<std::int64_t> shape;
  /// Rows of the tensor before it.
  std::int64_t row = 0;
  bool found = false;
};

class Loader {
public:
  Loader(Stream& stream, const Config& config, DType dtype) : stream_(stream), config_(config) {
    weights_.dtype = dtype;
    weights_.layers.resize(static_cast<std::size_t>(config.layers));
  }

  /// Makes room for everything, so that what does not fit is said before anything is read.
  Result<void> make_room() {
    GPUACTORS_TRY(add("model.embed_tokens.weight", weights_.table, {config_.vocabulary, config_.width}));
    GPUACTORS_TRY(add("model.norm.weight", weights_.norm, {config_.width}));
    if (!config_.is_tied)
      GPUACTORS_TRY(add("lm_head.weight", weights_.head, {config_.vocabulary, config_.width}));
    for (std::size_t i = 0; i < weights_.layers.size(); ++i)
      GPUACTORS_TRY(add_layer(fmt::format("model.layers.{}.", i), weights_.layers[i]));
    return {};
  }

  /// Holds what a file says of its arrays against what is needed.
  Result<void> check(const fs::path& file, const nn::Safetensors& head) {
    for (const auto& [name, array] : head.arrays) {
      const auto found = targets_.find(name);
      if (found == targets_.end())
        continue;
      auto& target = found->second;
      if (array.shape != target.shape)
        return fail(Errc::invalid_argument,
                    fmt::format("{}: {}: its shape is [{}]; config.json says [{}]", file.string(), name,
                                fmt::join(array.shape, ","), fmt::join(target.shape, ",")));
      if (array.dtype != weights_.dtype)
        return fail(Errc::invalid_argument, fmt::format("{}: {}: its type is {}, that of the others {}", file.string(),
                                                        name, to_string(array.dtype), to_string(weights_.dtype)));
      target.found = true;
    }
    return {};
  }

  /// Behind the check of all files.
  Result<void> check_all_found() const {
    for (const auto& [name, target] : targets_)
      if (!target.found)
        return fail(Errc::invalid_argument, fmt::format("no file of the model has the array {}", name));
    return {};
  }

  Result<void> load(const fs::path& file) {
    GPUACTORS_LET(content, nn::read_safetensors(file, nn::Checksum::optional));
    GPUACTORS_TRY(check(file, content));
    Result<void> placed;
    for (const auto& [name, array] : content.arrays)
      if (const auto found = targets_.find(name); placed && found != targets_.end()) {
        sample(name, array);
        placed = place(found->second, array);
      }
    // Whatever came of it: the bytes go with the file.
    auto done = stream_.synchronize();
    widened_.clear();
    return placed ? done : placed;
  }

  Weights take() && {
    return std::move(weights_);
  }

private:
  Result<void> add_layer(const std::string& prefix, Layer& layer) {
    const auto queries = config_.query_width();
    const auto keys = config_.key_width();
    const auto width = config_.width;
    GPUACTORS_TRY(add(prefix + "input_layernorm.weight", layer.attention_norm, {width}));
    GPUACTORS_TRY(add(prefix + "self_attn.q_proj.weight", layer.qkv, {queries, width}, queries + 2 * keys));
    add_below(prefix + "self_attn.k_proj.weight", layer.qkv, {keys, width}, queries);
    add_below(prefix + "self_attn.v_proj.weight", layer.qkv, {keys, width}, queries + keys);
    if (config_.has_bias) {
      GPUACTORS_LET(bias, stream_.tensor(DType::f32, {queries + 2 * keys}));
      layer.qkv_bias = std::move(bias);
      add_below(prefix + "self_attn.q_proj.bias", layer.qkv_bias, {queries}, 0);
      add_below(prefix + "self_attn.k_proj.bias", layer.qkv_bias, {keys}, queries);
      add_below(prefix + "self_attn.v_proj.bias", layer.qkv_bias, {keys}, queries + keys);
    }
    GPUACTORS_TRY(add(prefix + "self_attn.o_proj.weight", layer.attention_out, {width, queries}));
    GPUACTORS_TRY(add(prefix + "post_attention_layernorm.weight", layer.inner_norm, {width}));
    GPUACTORS_TRY(
        add(prefix + "mlp.gate_proj.weight", layer.gate_up, {config_.inner_width, width}, 2 * config_.inner_width));
    add_below(prefix + "mlp.up_proj.weight", layer.gate_up, {config_.inner_width, width}, config_.inner_width);
    return add(prefix + "mlp.down_proj.weight", layer.down, {width, config_.inner_width});
  }

  /// A tensor for the array, with so many rows if it is not alone there.
  Result<void> add(const std::string& name, Tensor& tensor, std::vector<std::int64_t> shape, std::int64_t rows = 0) {
    auto whole = shape;
    if (rows > 0)
      whole[0] = rows;
    GPUACTORS_LET(made, stream_.tensor(weights_.dtype, std::move(whole)));
    tensor = std::move(made);
    add_below(name, tensor, std::move(shape), 0);
    return {};
  }

  void add_below(const std::string& name, Tensor& tensor, std::vector<std::int64_t> shape, std::int64_t row) {
    targets_[name] = {&tensor, std::move(shape), row};
  }

  void sample(const std::string& name, const nn::NamedArray& array) {
    constexpr std::size_t piece = 4096;
    constexpr std::size_t pieces = 8;
    weights_.fingerprint.add(fmt::format("{} {} [{}]", name, to_string(array.dtype), fmt::join(array.shape, ",")));
    const auto size = array.bytes.size();
    const auto step = std::max(piece, size / pieces);
    for (std::size_t at = 0; at < size; at += step)
      weights_.fingerprint.add(array.bytes.subspan(at, std::min(piece, size - at)));
  }

  Result<void> place(const Target& target, const nn::NamedArray& array) {
    const auto rows = target.tensor->shape()[0];
    auto* to = static_cast<std::byte*>(target.tensor->raw())
               + target.tensor->bytes() / static_cast<std::size_t>(rows) * static_cast<std::size_t>(target.row);
    if (target.tensor->dtype() == array.dtype)
      return stream_.upload(to, array.bytes.data(), array.bytes.size());
    widened_.push_back(widen(array));
    return stream_.upload(to, widened_.back().data(), widened_.back().size() * sizeof(float));
  }

  static std::vector<float> widen(const nn::NamedArray& array) {
    std::vector<float> values;
    for (std::size_t at = 0; at < array.bytes.size(); at += sizeof(Float16)) {
      // Files align nothing.
      Float16 half;
      BFloat16 brain;
      std::memcpy(&half, array.bytes.data() + at, sizeof(half));
      std::memcpy(&brain, array.bytes.data() + at, sizeof(brain));
      values.push_back(array.dtype == DType::f16 ? static_cast<float>(half) : static_cast<float>(brain));
    }
    return values;
  }

  Stream& stream_;
  const Config& config_;
  Weights weights_;
  std::map<std::string, Target> targets_;
  std::vector<std::vector<float>> widened_;
};

/// The files of a model, each once.
Result<std::vector<fs::path>> files_of(const fs::path& folder) {
  const auto index = folder / "model.safetensors.index.json";
  const auto single = folder / "model.safetensors";
  // As transformers do: beside one file, an index is left from an earlier form of the model.
  if (std::error_code ignored; fs::exists(single, ignored))
    return std::vector{single};
  GPUACTORS_LET(text, nn::read_text_if_there(index));
  if (!text) // who opens the file says that there is none
    return std::vector{single};
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  const auto wrong = [&] { return fail(Errc::invalid_argument, index.string() + " has no weight_map of file names"); };
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    return wrong();
  std::set<std::string> names;
  for (const auto& name : json["weight_map"]) {
    // Files beside it, and no others.
    if (!name.is_string() || fs::path{name.get<std::string>()}.has_parent_path())
      return wrong();
    names.insert(name.get<std::string>());
  }
  std::vector<fs::path> files;
  for (const auto& name : names)
    files.push_back(folder / name);
  return files;
}

/// What the files say of their arrays.
using FileHeads = std::vector<std::pair<fs::path, nn::Safetensors>>;

Result<DType> type_of(const FileHeads& files) {
  for (const auto& [file, head] : files) {
    const auto found = head.arrays.find("model.embed_tokens.weight");
    if (found == head.arrays.end())
      continue;
    const auto dtype = found->second.dtype;
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
      return fail(Errc::unsupported,
                  fmt::format("{}: weights are of f32, f16 or bf16, not {}", file.string(), to_string(dtype)));
    return dtype;
  }
  return fail(Errc::invalid_argument, "no file of the model has the array model.embed_tokens.weight");
}

} // namespace

Result<Weights> load_weights(Stream& stream, const Config& config, const fs::path& folder) {
  GPUACTORS_LET(files, files_of(folder));
  FileHeads heads;
  for (const auto& file : files) {
    GPUACTORS_LET(head, nn::read_safetensors_head(file));
    heads.emplace_back(file, std::move(head));
  }
  GPUACTORS_LET(dtype, type_of(heads));
  Loader loader{stream, config, dtype};
  GPUACTORS_TRY(loader.make_room());
  for (const auto& [file, head] : heads)
    GPUACTORS_TRY(loader.check(file, head));
  GPUACTORS_TRY(loader.check_all_found());
  for (const auto& file : files)
    GPUACTORS_TRY(loader.load(file));
  return std::move(loader).take();
}

} // namespace llm
