// Decoders against what transformers computes with the same weights (tests/data/llm/make.py): logits, and texts that
// are written alone, together, in parts and in other pages.
#include "device.hpp"

#include <apps/llm/batch.hpp>
#include <apps/llm/decoder.hpp>
#include <apps/nn/safetensors.hpp>
#include <support/catch.hpp>
#include <support/results.hpp>
#include <support/temporary_folder.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <span>

using namespace llm;
using namespace gpuactors;
using gpuactors::test::must;
using llm::test::folder_of;
using llm::test::read;
using Json = nlohmann::json;

namespace {

Json expected(const std::string& model) {
  return Json::parse(read(folder_of(model) / "expected.json"));
}

/// A decoder on a host device of its own.
struct Bench {
  std::unique_ptr<Context> context = llm::test::open_device();
  std::unique_ptr<Decoder> decoder;
  Batch batch;

  Bench(const std::filesystem::path& folder, const Room& room) : batch(room) {
    auto& stream = context->stream();
    auto config = must(read_config(read(folder / "config.json")));
    auto weights = must(load_weights(stream, config, folder));
    // Products take memory of their own on CUDA, at the first of them.
    const auto a = must(stream.tensor_from(std::vector<float>{1}, {1, 1}));
    auto c = must(stream.tensor(DType::f32, {1, 1}));
    must(stream.gemm(a, a, c));
    const auto used = context->memory_used();
    const auto dtype = weights.dtype;
    const auto pages = static_cast<std::uint64_t>(room.pages + 1) * Decoder::page_bytes(config, dtype);
    const auto bound = Decoder::working_bytes(config, dtype, room) + pages;
    decoder = must(Decoder::make(stream, std::move(config), std::move(weights), room));
    // What is promised to suffice does, and is not much too large.
    CHECK(context->memory_used() - used <= bound);
    CHECK(context->memory_used() - used > bound / 3);
  }

  /// Runs everything that was added. @returns what was written, by the text.
  std::map<TextId, std::vector<std::int32_t>> write() {
    std::map<TextId, std::vector<std::int32_t>> written;
    while (!batch.empty()) {
      const auto step = batch.plan([](TextId) { return true; },
                                   [&](const Text& text) { decoder->set_pages(text.slot, text.cache.pages); });
      for (const auto& chosen : batch.take(must(decoder->run(step))))
        written[chosen.text].push_back(chosen.token);
    }
    return written;
  }

  void add(TextId id, const Json& a_case) {
    Text text;
    text.id = id;
    text.tokens = a_case["prompt"].get<std::vector<std::int32_t>>();
    text.most = static_cast<std::int64_t>(text.tokens.size() + a_case["written"].size());
    batch.add(std::move(text));
  }
};

constexpr Room ample{.slots = 4, .rows = 32, .positions = 1152, .pages = 100};

/// A copy of a model of f32 with weights of f16.
void narrow(const std::filesystem::path& from, const std::filesystem::path& to) {
  const auto file = must(nn::read_safetensors(from / "model.safetensors", nn::Checksum::optional));
  std::vector<std::vector<Float16>> kept;
  nn::NamedArrays arrays;
  for (const auto& [name, array] : file.arrays) {
    auto& values = kept.emplace_back();
    for (std::size_t at = 0; at < array.bytes.size(); at += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, array.bytes.data() + at, sizeof(value));
      values.emplace_back(value);
    }
    arrays[name] = {DType::f16, array.shape, std::as_bytes(std::span{values})};
  }
  must(nn::write_safetensors(to / "model.safetensors", {}, arrays));
  std::filesystem::copy_file(from / "config.json", to / "config.json");
}

} // namespace

TEST_CASE("logits are those of transformers", "[golden]") {
  // What products of 16 bits read is rounded before.
  const auto [model, tolerance] = GENERATE(table<std::string, double>({{"llama", 2e-5}, {"qwen2", 0.02}}));
  INFO(model);
  for (const auto& a_case : expected(model)) {
    Bench bench{folder_of(model), {.slots = 1, .rows = 1200, .positions = 1152, .pages = 72}};
    bench.add(1, a_case);
    const auto step = bench.batch.plan(
        [](TextId) { return true; }, [&](const Text& text) { bench.decoder->set_pages(text.slot, text.cache.pages); });
    REQUIRE(bench.decoder->run(step));
    const auto logits = must(bench.context->stream().to_host<float>(bench.decoder->logits()));
    const auto wanted = a_case["logits"].get<std::vector<double>>();
    double worst = 0;
    double largest = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(logits[i]) - wanted[i]));
      largest = std::max(largest, std::abs(wanted[i]));
    }
    INFO("worst " << worst << " of " << largest);
    CHECK(worst <= tolerance * largest);
  }
}

TEST_CASE("texts are written as transformers writes them, one after the other and all together", "[golden]") {
  const std::string model = "llama";
  const auto cases = expected(model);
  Bench together{folder_of(model), ample};
  for (std::size_t i = 0; i < cases.size(); ++i)
    together.add(i, cases[i]);
  const auto written = together.write();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto wanted = cases[i]["written"].get<std::vector<std::int32_t>>();
    CHECK(written.at(i) == wanted);
    Bench alone{folder_of(model), {.slots = 1, .rows = 1200, .positions = 1152, .pages = 72}};
    alone.add(9, cases[i]);
    CHECK(alone.write().at(9) == wanted);
  }
}

TEST_CASE("with weights of f16 the same texts are written") {
  const gpuactors::test::TemporaryFolder folder;
  narrow(folder_of("llama"), folder.path());
  const auto cases = expected("llama");
  Bench bench{folder.path(), ample};
  for (std::size_t i = 0; i < cases.size(); ++i)
    bench.add(i, cases[i]);
  const auto written = bench.write();
  for (std::size_t i = 0; i < cases.size(); ++i)
    CHECK(written.at(i) == cases[i]["written"].get<std::vector<std::int32_t>>());
}

TEST_CASE("weights that overflow give no token, and no other text is any worse for it") {
  const gpuactors::test::TemporaryFolder folder;
  narrow(folder_of("llama"), folder.path());
  auto file = must(nn::read_safetensors(folder.path() / "model.safetensors"));
  const std::vector<Float16> damage(32, Float16{std::numeric_limits<float>::quiet_NaN()});
  // Of one token alone.
  auto& table = file.arrays["model.embed_tokens.weight"];
  std::vector<std::byte> bytes(table.bytes.begin(), table.bytes.end());
  std::memcpy(bytes.data() + 33 * 32 * sizeof(Float16), damage.data(), damage.size() * sizeof(Float16));
  table.bytes = bytes;
  must(nn::write_safetensors(folder.path() / "model.safetensors", {}, file.arrays));
  Bench bench{folder.path(), ample};
  bench.add(1, Json{{"prompt", {33}}, {"written", {0, 0, 0}}});
  bench.add(2, Json{{"prompt", {5}}, {"written", {0, 0, 0}}});
  const auto written = bench.write();
  CHECK(written.at(1) == std::vector<std::int32_t>{no_token});
  CHECK(written.at(2).size() == 3);
}

TEST_CASE("a text does not depend on its pages, on the parts in which it is read, nor on who runs beside it") {
  const auto model = GENERATE(as<std::string>{}, "llama", "qwen2");
  INFO(model);
  // A GPU may sum in another order for another number of rows, and in 16 bits that can be another token.
  if (model == "qwen2" && std::getenv("GPUACTORS_TEST_DEVICES") != nullptr)
    return;
  const auto cases = expected(model);
  // Beginnings in parts of at most five tokens, pages for two texts at a time: they come and go.
  Bench crowded{folder_of(model), {.slots = 3, .rows = 5, .positions = 64, .pages = 8}};
  std::map<TextId, std::vector<std::int32_t>> alone;
  for (TextId id = 0; id < 9; ++id) {
    const auto& a_case = cases[id % 3];
    crowded.add(id, a_case);
    Bench bench{folder_of(model), {.slots = 1, .rows = 64, .positions = 64, .pages = 4}};
    bench.add(id, a_case);
    alone.merge(bench.write());
  }
  CHECK(crowded.write() == alone);
}

TEST_CASE("a text that begins as others did is the same, and is read only from where it differs", "[golden]") {
  const auto cases = expected("llama");
  const auto longest = std::max_element(
      cases.begin(), cases.end(), [](const Json& a, const Json& b) { return a["prompt"].size() < b["prompt"].size(); });
  const auto prompt = (*longest)["prompt"].get<std::vector<std::int32_t>>();
  const auto wanted = (*longest)["written"].get<std::vector<std::int32_t>>();
  REQUIRE(prompt.size() > 2 * page_tokens);
  Bench bench{folder_of("llama"), ample};
  bench.add(1, *longest);
  CHECK(bench.write().at(1) == wanted);
  bench.add(2, *longest);
  const auto step =
      bench.batch.plan([](TextId) { return true; },
                       [&](const Text& text) {
                         CHECK(text.seen == static_cast<std::int64_t>(prompt.size() - 1) / page_tokens * page_tokens);
                         bench.decoder->set_pages(text.slot, text.cache.pages);
                       });
  CHECK(step.rows.size() <= page_tokens);
  auto written = std::vector<std::int32_t>{};
  for (const auto& chosen : bench.batch.take(must(bench.decoder->run(step))))
    written.push_back(chosen.token);
  const auto rest = bench.write();
  written.insert(written.end(), rest.at(2).begin(), rest.at(2).end());
  CHECK(written == wanted);
  // A conversation goes on behind what was written.
  auto next = prompt;
  next.insert(next.end(), wanted.begin(), wanted.end());
  next.push_back(3);
  Text text;
  text.id = 3;
  text.tokens = next;
  text.most = static_cast<std::int64_t>(next.size()) + 4;
  bench.batch.add(text);
  Bench alone{folder_of("llama"), {.slots = 1, .rows = 1200, .positions = 1152, .pages = 72, .shares_pages = false}};
  alone.batch.add(text);
  CHECK(bench.write().at(3) == alone.write().at(3));
}

TEST_CASE("a step without rows, or with too many, is refused") {
  Bench bench{folder_of("llama"), {.slots = 1, .rows = 2, .positions = 16, .pages = 1}};
  CHECK(bench.decoder->run({}).error().code() == Errc::invalid_argument);
  CHECK(bench.decoder->run({{{1, 0, 0}, {1, 1, 0}, {1, 2, 0}}, {}}).error().code() == Errc::invalid_argument);
}
