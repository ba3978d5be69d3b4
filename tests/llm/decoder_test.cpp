// Decoders against what transformers computes with the same weights (tests/data/llm/make.py): logits, and texts that
// are written alone, together, in parts and in other pages.
#include "device.hpp"

#include <apps/llm/batch.hpp>
#include <apps/llm/decoder.hpp>
#include <support/catch.hpp>
#include <support/results.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

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

  Bench(const std::string& model, const Room& room) : batch(room) {
    auto& stream = context->stream();
    auto config = must(read_config(read(folder_of(model) / "config.json")));
    auto weights = must(load_weights(stream, config, folder_of(model)));
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
      const auto step =
          batch.plan([](TextId) { return true; }, [&](const Text& text) { decoder->set_pages(text.slot, text.pages); });
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

constexpr Room ample{.slots = 4, .rows = 32, .positions = 128, .pages = 32};

} // namespace

TEST_CASE("logits are those of transformers", "[golden]") {
  // Sums of 16 bits are rounded at other places there.
  const auto [model, tolerance] = GENERATE(table<std::string, double>({{"llama", 2e-4}, {"qwen2", 0.05}}));
  INFO(model);
  for (const auto& a_case : expected(model)) {
    Bench bench{model, ample};
    bench.add(1, a_case);
    const auto step = bench.batch.plan([](TextId) { return true; },
                                       [&](const Text& text) { bench.decoder->set_pages(text.slot, text.pages); });
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
  Bench together{model, ample};
  for (std::size_t i = 0; i < cases.size(); ++i)
    together.add(i, cases[i]);
  const auto written = together.write();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto wanted = cases[i]["written"].get<std::vector<std::int32_t>>();
    CHECK(written.at(i) == wanted);
    Bench alone{model, {.slots = 1, .rows = 128, .positions = 128, .pages = 8}};
    alone.add(9, cases[i]);
    CHECK(alone.write().at(9) == wanted);
  }
}

TEST_CASE("a text does not depend on its pages, on the parts in which it is read, nor on who runs beside it") {
  const auto model = GENERATE(as<std::string>{}, "llama", "qwen2");
  INFO(model);
  const auto cases = expected(model);
  // Beginnings in parts of at most five tokens, pages for two texts at a time: they come and go.
  Bench crowded{model, {.slots = 3, .rows = 5, .positions = 64, .pages = 8}};
  std::map<TextId, std::vector<std::int32_t>> alone;
  for (TextId id = 0; id < 9; ++id) {
    const auto& a_case = cases[id % cases.size()];
    crowded.add(id, a_case);
    Bench bench{model, {.slots = 1, .rows = 64, .positions = 64, .pages = 4}};
    bench.add(id, a_case);
    alone.merge(bench.write());
  }
  CHECK(crowded.write() == alone);
}

TEST_CASE("a step without rows, or with too many, is refused") {
  Bench bench{"llama", {.slots = 1, .rows = 2, .positions = 16, .pages = 1}};
  CHECK(bench.decoder->run({}).error().code() == Errc::invalid_argument);
  CHECK(bench.decoder->run({{{1, 0, 0}, {1, 1, 0}, {1, 2, 0}}, {}}).error().code() == Errc::invalid_argument);
}
