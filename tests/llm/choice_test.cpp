// The choice of tokens: the likeliest, from the likeliest, and as often as they are likely.
#include "device.hpp"

#include <apps/llm/kernels.hpp>
#include <support/catch.hpp>
#include <support/results.hpp>

#include <algorithm>
#include <cmath>
#include <map>

using namespace llm;
using namespace gpuactors;
using gpuactors::test::must;

namespace {

constexpr std::size_t tokens = 50;

/// Logits of one row, in no order.
std::vector<float> logits() {
  std::vector<float> result;
  for (std::size_t i = 0; i < tokens; ++i)
    result.push_back(static_cast<float>((i * 37) % tokens) * 0.1F - 2.0F);
  return result;
}

/// How often each token is chosen, with a seed for each time.
std::map<std::int32_t, int> choose(Choice choice, int times, const std::vector<float>& row = logits()) {
  const auto context = llm::test::open_device();
  auto& stream = context->stream();
  std::vector<float> rows;
  std::vector<std::uint8_t> choices(static_cast<std::size_t>(times) * sizeof(Choice));
  for (int i = 0; i < times; ++i) {
    rows.insert(rows.end(), row.begin(), row.end());
    choice.seed_low = static_cast<std::uint32_t>(i);
    std::memcpy(choices.data() + static_cast<std::size_t>(i) * sizeof(Choice), &choice, sizeof(Choice));
  }
  const auto in = must(stream.tensor_from(rows));
  const auto wishes = must(stream.tensor_from(choices));
  auto out = must(stream.tensor(DType::i32, {times}));
  must(stream.launch(choose_tokens, Blocks{static_cast<std::uint64_t>(times)}, row.size(),
                     static_cast<const Choice*>(static_cast<const void*>(wishes.raw())), in, out));
  std::map<std::int32_t, int> counts;
  for (const auto token : must(stream.to_host<std::int32_t>(out)))
    ++counts[token];
  return counts;
}

/// The tokens from the likeliest on.
std::vector<std::int32_t> ranked() {
  const auto row = logits();
  std::vector<std::int32_t> order(tokens);
  for (std::size_t i = 0; i < tokens; ++i)
    order[i] = static_cast<std::int32_t>(i);
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)]; });
  return order;
}

} // namespace

TEST_CASE("without a temperature the likeliest is chosen, and the first of several") {
  CHECK(choose({0, 1, 0, 0, 0, 0}, 5) == std::map<std::int32_t, int>{{ranked()[0], 5}});
  CHECK(choose({0, 0.1F, 1, 0, 0, 0}, 5) == std::map<std::int32_t, int>{{ranked()[0], 5}});
  CHECK(choose({0, 1, 0, 0, 0, 0}, 1, {1, 3, 2, 3}) == std::map<std::int32_t, int>{{1, 1}});
  // What is no number is nobody's choice.
  CHECK(choose({0, 1, 0, 0, 0, 0}, 1, {NAN, NAN}) == std::map<std::int32_t, int>{{no_token, 1}});
  CHECK(choose({1, 0.5F, 2, 0, 0, 0}, 1, {NAN, NAN}) == std::map<std::int32_t, int>{{no_token, 1}});
}

TEST_CASE("top_k leaves that many, and top_p those that have that much of the probability together") {
  const auto order = ranked();
  const auto of_k = choose({5, 1, 3, 0, 0, 0}, 500);
  CHECK(of_k.size() == 3);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(of_k.count(order[i]) == 1);
  const auto row = logits();
  for (const float part : {0.05F, 0.3F, 0.6F}) {
    double total = 0;
    for (const float x : row)
      total += std::exp(static_cast<double>(x));
    std::size_t wanted = 0;
    for (double mass = 0; mass < static_cast<double>(part) * total * (1 - 1e-6);)
      mass += std::exp(static_cast<double>(row[static_cast<std::size_t>(order[wanted++])]));
    const auto of_p = choose({1, part, 0, 0, 0, 0}, 3000);
    CHECK(of_p.size() == wanted);
    for (std::size_t i = 0; i < wanted; ++i)
      CHECK(of_p.count(order[i]) == 1);
  }
  // First the most, then the part of what they have.
  CHECK(choose({1, 0.4F, 2, 0, 0, 0}, 500).size() == 1);
  CHECK(choose({1, 0.9F, 2, 0, 0, 0}, 500).size() == 2);
}

TEST_CASE("top_k and top_p leave as many where a logit is no number, or far from all others") {
  const auto chosen_of = [](Choice choice, const std::vector<float>& row) {
    std::vector<std::int32_t> tokens_chosen;
    for (const auto& [token, times] : choose(choice, 300, row))
      tokens_chosen.push_back(token);
    return tokens_chosen;
  };
  const Choice likeliest{1, 1, 1, 0, 0, 0};
  const Choice two{1, 1, 2, 0, 0, 0};
  CHECK(chosen_of(likeliest, {NAN, 1, 2, 3}) == std::vector<std::int32_t>{3});
  CHECK(chosen_of(likeliest, {1, NAN, 3, 2}) == std::vector<std::int32_t>{2});
  CHECK(chosen_of(two, {-INFINITY, 1, 2, 3}) == std::vector<std::int32_t>{2, 3});
  CHECK(chosen_of(two, {-1e30F, 1, 2, 3}) == std::vector<std::int32_t>{2, 3});
}

TEST_CASE("tokens are chosen as often as they are likely, and the same for the same seed and turn") {
  constexpr int times = 40'000;
  const float temperature = 0.7F;
  const auto counts = choose({temperature, 1, 0, 3, 0, 9}, times);
  const auto row = logits();
  double total = 0;
  for (const float x : row)
    total += std::exp(static_cast<double>(x / temperature));
  for (std::size_t i = 0; i < tokens; ++i) {
    const auto expected = std::exp(static_cast<double>(row[i] / temperature)) / total * times;
    const auto found = counts.find(static_cast<std::int32_t>(i));
    const double seen = found != counts.end() ? found->second : 0;
    INFO("token " << i << ": " << seen << " of " << expected);
    CHECK(std::abs(seen - expected) < 5 * std::sqrt(expected) + 1);
  }
  CHECK(choose({temperature, 1, 0, 3, 0, 9}, 200) == choose({temperature, 1, 0, 3, 0, 9}, 200));
  CHECK(choose({temperature, 1, 0, 3, 0, 9}, 200) != choose({temperature, 1, 0, 4, 0, 9}, 200));
  CHECK(choose({temperature, 1, 0, 3, 0, 9}, 200) != choose({temperature, 1, 0, 3, 0, 8}, 200));
}
