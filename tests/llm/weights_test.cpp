// Files of weights: whole, in several files, and what is wrong with others.
#include "device.hpp"

#include <apps/llm/weights.hpp>
#include <apps/nn/safetensors.hpp>
#include <support/catch.hpp>
#include <support/results.hpp>
#include <support/temporary_folder.hpp>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

using namespace llm;
using namespace gpuactors;
using gpuactors::test::fails;
using gpuactors::test::must;
namespace fs = std::filesystem;

namespace {

struct Model {
  Config config;
  nn::Safetensors file;
};

Model load_small() {
  const auto folder = llm::test::folder_of("llama");
  return {must(read_config(llm::test::read(folder / "config.json"))),
          must(nn::read_safetensors(folder / "model.safetensors", nn::Checksum::optional))};
}

/// What is said of a folder whose one file has these arrays.
Error refused(const Config& config, const nn::NamedArrays& arrays) {
  const gpuactors::test::TemporaryFolder folder;
  must(nn::write_safetensors(fs::path{folder.path()} / "model.safetensors", {}, arrays));
  const auto context = llm::test::open_device();
  const auto weights = load_weights(context->stream(), config, folder.path());
  REQUIRE_FALSE(weights);
  return weights.error();
}

} // namespace

TEST_CASE("weights in several files are those of one") {
  const auto model = load_small();
  const gpuactors::test::TemporaryFolder folder;
  const fs::path path{folder.path()};
  nn::NamedArrays parts[2];
  nlohmann::json index;
  int at = 0;
  for (const auto& [name, array] : model.file.arrays) {
    index["weight_map"][name] = at % 2 == 0 ? "a.safetensors" : "b.safetensors";
    parts[at++ % 2][name] = array;
  }
  must(nn::write_safetensors(path / "a.safetensors", {}, parts[0]));
  must(nn::write_safetensors(path / "b.safetensors", {}, parts[1]));
  std::ofstream{path / "model.safetensors.index.json"} << index;
  const auto context = llm::test::open_device();
  auto& stream = context->stream();
  const auto split = must(load_weights(stream, model.config, path));
  const auto whole = must(load_weights(stream, model.config, llm::test::folder_of("llama")));
  CHECK(must(stream.to_host<float>(split.layers[1].qkv)) == must(stream.to_host<float>(whole.layers[1].qkv)));
  CHECK(must(stream.to_host<float>(split.layers[0].gate_up)) == must(stream.to_host<float>(whole.layers[0].gate_up)));
  CHECK(must(stream.to_host<float>(split.head)) == must(stream.to_host<float>(whole.head)));
}

TEST_CASE("beside one file with all weights, an index is left from an earlier form of the model") {
  const auto model = load_small();
  const gpuactors::test::TemporaryFolder folder;
  const fs::path path{folder.path()};
  fs::copy_file(llm::test::folder_of("llama") / "model.safetensors", path / "model.safetensors");
  std::ofstream{path / "model.safetensors.index.json"} << R"({"weight_map": {"a": "gone.safetensors"}})";
  const auto context = llm::test::open_device();
  CHECK(load_weights(context->stream(), model.config, path));
}

TEST_CASE("a fingerprint is the same for the same weights, and another one where some have changed") {
  const auto model = load_small();
  const gpuactors::test::TemporaryFolder folder;
  const fs::path path{folder.path()};
  const auto context = llm::test::open_device();
  const auto fingerprint = [&](const nn::NamedArrays& arrays) {
    must(nn::write_safetensors(path / "model.safetensors", {}, arrays));
    return must(load_weights(context->stream(), model.config, path)).fingerprint.to_string();
  };
  const auto as_it_is = fingerprint(model.file.arrays);
  CHECK(fingerprint(model.file.arrays) == as_it_is);
  auto arrays = model.file.arrays;
  auto& norm = arrays.at("model.norm.weight");
  std::vector<std::byte> other{norm.bytes.begin(), norm.bytes.end()};
  other.back() ^= std::byte{1};
  norm.bytes = other;
  CHECK(fingerprint(arrays) != as_it_is);
}

TEST_CASE("what is missing, or has another shape or type than it should, is said with its file and its name") {
  const auto model = load_small();
  auto arrays = model.file.arrays;
  arrays.erase("model.layers.1.mlp.up_proj.weight");
  CHECK(fails(refused(model.config, arrays), Errc::invalid_argument,
              "no file of the model has the array model.layers.1.mlp.up_proj.weight"));
  arrays = model.file.arrays;
  arrays["model.norm.weight"] = arrays["lm_head.weight"];
  CHECK(fails(refused(model.config, arrays), Errc::invalid_argument,
              "model.norm.weight: its shape is [61,32]; config.json says [32]"));
  arrays = model.file.arrays;
  auto& norm = arrays["model.norm.weight"];
  norm.dtype = DType::i32;
  CHECK(fails(refused(model.config, arrays), Errc::invalid_argument, "its type is i32, that of the others f32"));
  arrays = model.file.arrays;
  arrays["model.embed_tokens.weight"].dtype = DType::i32;
  CHECK(fails(refused(model.config, arrays), Errc::unsupported, "weights are of f32, f16 or bf16, not i32"));
  arrays.clear();
  arrays["other"] = model.file.arrays.at("model.norm.weight");
  CHECK(fails(refused(model.config, arrays), Errc::invalid_argument,
              "no file of the model has the array "
              "model.embed_tokens.weight"));
}

TEST_CASE("a folder without weights, or with a list of files elsewhere, is refused") {
  const auto model = load_small();
  const auto context = llm::test::open_device();
  const gpuactors::test::TemporaryFolder folder;
  const fs::path path{folder.path()};
  CHECK(load_weights(context->stream(), model.config, path).error().code() == Errc::not_found);
  for (const char* index : {"{", "{}", R"({"weight_map": {"a": 1}})", R"({"weight_map": {"a": "../other"}})"}) {
    std::ofstream{path / "model.safetensors.index.json"} << index;
    CHECK(fails(load_weights(context->stream(), model.config, path).error(), Errc::invalid_argument,
                "has no weight_map of file names"));
  }
}

TEST_CASE("weights that do not fit say so with the numbers before anything is read") {
  auto model = load_small();
  model.config.vocabulary = 10'000'000;
  const auto context = llm::test::open_device();
  const auto weights = load_weights(context->stream(), model.config, llm::test::folder_of("llama"));
  REQUIRE_FALSE(weights);
  CHECK(weights.error().code() == Errc::out_of_memory);
}
