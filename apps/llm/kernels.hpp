// Kernels of a decoder: what lies between its matrix products, and the choice of the next token.
//
// Weights, and what products read, are of the type `W` (f32, f16 or bf16); what is summed and carried from layer to
// layer is in f32. A row is a token of a step; each belongs to a slot (a text that runs) and has a position in it. Keys
// and values of all texts lie in pages of `page_tokens` positions, which a table of each slot names (the paged
// attention of Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023).
#pragma once

#include <gpuactors/device/block_kernel.hpp>
#include <gpuactors/device/float16.hpp>
#include <gpuactors/kernels/typed.hpp>

#include <cmath>
#include <cstdint>

namespace llm {

/// How many positions lie in a page.
inline constexpr std::int32_t page_tokens = 16;

/// How many positions attention looks at before it sums up: what a block keeps in shared memory.
inline constexpr std::uint64_t attention_tile = 1024;

/// Sizes of the attention.
struct Heads {
  std::uint64_t query;
  std::uint64_t key;
  /// Of a head; even.
  std::uint64_t size;

  /// Returns the numbers of a row of queries, keys and values.
  [[nodiscard]] GPUACTORS_FUNCTION std::uint64_t width() const {
    return (query + 2 * key) * size;
  }
};

/// Where the rows of a step belong, and where what they have seen lies.
struct Places {
  const std::int32_t* positions;
  const std::int32_t* slots;
  /// For each slot the numbers of its pages, `pages_a_slot` of them.
  const std::int32_t* pages;
  std::uint64_t pages_a_slot;

  /// Returns the row of the cache that has a position of the slot of `row`.
  [[nodiscard]] GPUACTORS_FUNCTION std::uint64_t cache_row(std::uint64_t row, std::uint64_t position) const {
    const auto* table = pages + static_cast<std::uint64_t>(slots[row]) * pages_a_slot;
    const auto page = static_cast<std::uint64_t>(table[position / page_tokens]);
    return page * page_tokens + position % page_tokens;
  }
};

/// x (rows x width) = the rows of the table that the tokens name. Index space: rows * width.
template <class W>
struct EmbedTokens {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t width, const std::int32_t* tokens, const W* table,
                                     float* x) const {
    x[i] = static_cast<float>(table[static_cast<std::uint64_t>(tokens[i / width]) * width + i % width]);
  }
};

/// y = x / sqrt(mean(x^2) + epsilon) * weight, for each row (Zhang and Sennrich, "Root Mean Square Layer
/// Normalization", 2019). A block for each row.
template <class W>
struct RmsNorm {
  GPUACTORS_FUNCTION void operator()(auto& block, std::uint64_t width, float epsilon, const float* x, const W* weight,
                                     W* y) const {
    const float* from = x + block.index() * width;
    W* to = y + block.index() * width;
    const float squares = block.sum(width, [&](std::uint64_t c) { return from[c] * from[c]; });
    const float scale = 1.0F / std::sqrt(squares / static_cast<float>(width) + epsilon);
    block.each(width, [&](std::uint64_t c) { to[c] = W(from[c] * scale * static_cast<float>(weight[c])); });
  }
};

/// Rotates queries and keys by their position (Su et al., "RoFormer: Enhanced Transformer with Rotary Position
/// Embedding", 2021; the halves of a head are the two parts of its numbers), and writes keys and values into the cache.
/// Index space: rows * (query + 2 key) heads * size / 2.
template <class W>
struct RotateAndKeep {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, Heads heads, Places places, const float* frequencies, float* qkv,
                                     W* keys, W* values) const {
    const auto half = heads.size / 2;
    const auto pair = i % half;
    const auto head = i / half % (heads.query + 2 * heads.key);
    const auto row = i / half / (heads.query + 2 * heads.key);
    float* low = qkv + row * heads.width() + head * heads.size + pair;
    float* high = low + half;
    const auto position = static_cast<std::uint64_t>(places.positions[row]);
    const auto cached = places.cache_row(row, position) * heads.key * heads.size + pair;
    if (head >= heads.query + heads.key) {
      W* to = values + cached + (head - heads.query - heads.key) * heads.size;
      to[0] = W(*low);
      to[half] = W(*high);
      return;
    }
    const float angle = static_cast<float>(position) * frequencies[pair];
    const float cosine = std::cos(angle);
    const float sine = std::sin(angle);
    const float x = *low * cosine - *high * sine;
    const float y = *high * cosine + *low * sine;
    if (head < heads.query) {
      *low = x;
      *high = y;
      return;
    }
    W* to = keys + cached + (head - heads.query) * heads.size;
    to[0] = W(x);
    to[half] = W(y);
  }
};

/// Attention of each query head of each row to all positions of its text up to its own, a tile after the other (the
/// running maximum and sum are those of Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). A
/// block for each head of each row; shared memory: `attention_tile` + size floats.
template <class W>
struct Attend {
  static constexpr unsigned threads = 128;

  GPUACTORS_FUNCTION void operator()(auto& block, Heads heads, Places places, const float* qkv, const W* keys,
                                     const W* values, W* y) const {
    const auto row = block.index() / heads.query;
    const auto head = block.index() % heads.query;
    const auto width = heads.key * heads.size;
    // Neighbouring query heads share a key head (Ainslie et al., "GQA", 2023).
    const auto shared_head = head / (heads.query / heads.key) * heads.size;
    const float* query = qkv + row * heads.width() + head * heads.size;
    const float scale = 1.0F / std::sqrt(static_cast<float>(heads.size));
    const auto end = static_cast<std::uint64_t>(places.positions[row]) + 1;
    auto* scores = gpuactors::shared_array<float>(block, attention_tile);
    auto* sums = gpuactors::shared_array<float>(block, heads.size);
    block.each(heads.size, [&](std::uint64_t d) { sums[d] = 0; });
    float most = -INFINITY;
    float total = 0;
    for (std::uint64_t begin = 0; begin < end; begin += attention_tile) {
      const auto count = end - begin < attention_tile ? end - begin : attention_tile;
      block.each(count, [&](std::uint64_t t) {
        const W* key = keys + places.cache_row(row, begin + t) * width + shared_head;
        float product = 0;
        for (std::uint64_t d = 0; d < heads.size; ++d)
          product += query[d] * static_cast<float>(key[d]);
        scores[t] = product * scale;
      });
      const float here = block.most(count, [&](std::uint64_t t) { return scores[t]; });
      const float next = here > most ? here : most;
      const float kept = std::exp(most - next);
      block.each(count, [&](std::uint64_t t) { scores[t] = std::exp(scores[t] - next); });
      total = total * kept + block.sum(count, [&](std::uint64_t t) { return scores[t]; });
      block.each(heads.size, [&](std::uint64_t d) {
        float sum = sums[d] * kept;
        for (std::uint64_t t = 0; t < count; ++t)
          sum += scores[t] * static_cast<float>(values[places.cache_row(row, begin + t) * width + shared_head + d]);
        sums[d] = sum;
      });
      most = next;
    }
    W* to = y + (row * heads.query + head) * heads.size;
    block.each(heads.size, [&](std::uint64_t d) { to[d] = W(sums[d] / total); });
  }
};

/// y = silu(gate) * up, where a row of x has all gates before all ups (Shazeer, "GLU Variants Improve Transformer",
/// 2020). Index space: rows * width.
template <class W>
struct SiluTimes {
  GPUACTORS_FUNCTION void operator()(std::uint64_t i, std::uint64_t width, const float* x, W* y) const {
    const float* row = x + i / width * 2 * width;
    const float gate = row[i % width];
    y[i] = W(gate / (1.0F + std::exp(-gate)) * row[width + i % width]);
  }
};

/// How the next token of a text is chosen. 24 bytes, as words of the step's inputs.
struct Choice {
  /// 0: always the likeliest.
  float temperature;
  /// Only the likeliest tokens that have this part of the probability together; 1: all.
  float top_p;
  /// Only so many of the likeliest, and those that are as likely as the last of them; 0: all.
  std::int32_t top_k;
  /// The number of the token in its text: with the seed, it decides.
  std::uint32_t turn;
  std::uint32_t seed_low;
  std::uint32_t seed_high;
};

/// What is chosen where no logit is a number.
inline constexpr std::int32_t no_token = -1;

/// A token and how much speaks for it.
struct Candidate {
  float weight;
  std::int32_t token;
};

/// Chooses a token for each row of logits (rows x tokens): the largest sum of logit / temperature and a random number
/// of Gumbel's distribution, which draws from the softmax (Gumbel, 1954; Maddison et al., "A* Sampling", 2014). What
/// top_k and top_p leave out lies below a bound, which is found by halving. `no_token` where no logit is a number. A
/// block for each row.
struct ChooseTokens {
  static constexpr unsigned threads = 1024;

  GPUACTORS_FUNCTION void operator()(auto& block, std::uint64_t tokens, const Choice* choices, const float* logits,
                                     std::int32_t* chosen) const {
    const Choice choice = choices[block.index()];
    const float* row = logits + block.index() * tokens;
    const bool greedy = choice.temperature <= 0;
    float bound = -INFINITY;
    if (!greedy && (choice.top_k > 0 || choice.top_p < 1))
      bound = find_bound(block, tokens, choice, row);
    const auto best = block.reduce(
        tokens, Candidate{-INFINITY, no_token},
        [&](std::uint64_t i) {
          const auto token = static_cast<std::int32_t>(i);
          if (row[i] < bound)
            return Candidate{-INFINITY, no_token};
          return Candidate{greedy ? row[i] : row[i] / choice.temperature + gumbel(choice, i), token};
        },
        [](Candidate a, Candidate b) { return better(b, a) ? b : a; });
    block.once([&] { chosen[block.index()] = best.token; });
  }

private:
  [[nodiscard]] static GPUACTORS_FUNCTION bool better(Candidate a, Candidate b) {
    return a.weight > b.weight || (a.weight == b.weight && a.token >= 0 && (b.token < 0 || a.token < b.token));
  }

  /// Returns the logit from which on tokens may be chosen.
  [[nodiscard]] static GPUACTORS_FUNCTION float find_bound(auto& block, std::uint64_t tokens, Choice choice,
                                                           const float* row) {
    // Of those that are numbers.
    const float highest = block.reduce(
        tokens, -INFINITY, [&](std::uint64_t i) { return row[i]; }, [](float a, float b) { return a < b ? b : a; });
    const float lowest = block.reduce(
        tokens, INFINITY, [&](std::uint64_t i) { return row[i]; }, [](float a, float b) { return b < a ? b : a; });
    float bound = lowest;
    if (choice.top_k > 0 && static_cast<std::uint64_t>(choice.top_k) < tokens) {
      const auto wanted = static_cast<std::uint32_t>(choice.top_k);
      bound = halve(lowest, highest, [&](float at) {
        return block.sum(tokens, [&](std::uint64_t i) { return row[i] >= at ? 1U : 0U; }) >= wanted;
      });
    }
    if (choice.top_p < 1) {
      const auto mass = [&](float at) {
        return block.sum(tokens, [&](std::uint64_t i) {
          return row[i] >= at ? std::exp((row[i] - highest) / choice.temperature) : 0.0F;
        });
      };
      const float wanted = choice.top_p * mass(bound);
      bound = halve(bound, highest, [&](float at) { return mass(at) >= wanted; });
    }
    return bound;
  }

  /// Returns the largest number from `low` to `high` for which `holds`, as it does for `low`.
  template <class F>
  [[nodiscard]] static GPUACTORS_FUNCTION float halve(float low, float high, const F& holds) {
    if (!(low < high) || holds(high))
      return high;
    // By their places in the order of all floats: 32 times, however far apart they are.
    auto first = place_of(low);
    auto last = place_of(high);
    while (last - first > 1) {
      const auto middle = first + (last - first) / 2;
      (holds(at_place(middle)) ? first : last) = middle;
    }
    return at_place(first);
  }

  /// Grows with the number.
  [[nodiscard]] static GPUACTORS_FUNCTION std::uint32_t place_of(float number) {
    constexpr std::uint32_t sign = 0x80000000U;
    const auto bits = __builtin_bit_cast(std::uint32_t, number);
    return (bits & sign) != 0 ? ~bits : bits | sign;
  }

  [[nodiscard]] static GPUACTORS_FUNCTION float at_place(std::uint32_t place) {
    constexpr std::uint32_t sign = 0x80000000U;
    return __builtin_bit_cast(float, (place & sign) != 0 ? place & ~sign : ~place);
  }

  /// Returns a number of Gumbel's distribution that only the seed, the turn and the token decide.
  [[nodiscard]] static GPUACTORS_FUNCTION float gumbel(Choice choice, std::uint64_t token) {
    auto bits = (std::uint64_t{choice.seed_high} << 32U | choice.seed_low) + token * 0x9e3779b97f4a7c15U
                + choice.turn * 0xd1b54a32d192ed03U;
    // The mixing function of Steele et al., "Fast splittable pseudorandom number generators", 2014.
    bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
    bits ^= bits >> 31U;
    const float uniform = (static_cast<float>(bits >> 41U) + 0.5F) / static_cast<float>(1U << 23U);
    return -std::log(-std::log(uniform));
  }
};

// One name for the kernel of each type of weights.
#define LLM_DECLARE_KERNEL(name, Functor, Declare, KindOf)                                                             \
  Declare(name##_f32, Functor<float>);                                                                                 \
  Declare(name##_f16, Functor<gpuactors::Float16>);                                                                    \
  Declare(name##_bf16, Functor<gpuactors::BFloat16>);                                                                  \
  template <class W>                                                                                                   \
  [[nodiscard]] const gpuactors::KindOf<Functor<W>>& name() {                                                          \
    if constexpr (std::is_same_v<W, float>)                                                                            \
      return name##_f32;                                                                                               \
    else if constexpr (std::is_same_v<W, gpuactors::Float16>)                                                          \
      return name##_f16;                                                                                               \
    else                                                                                                               \
      return name##_bf16;                                                                                              \
  }                                                                                                                    \
  static_assert(true)

LLM_DECLARE_KERNEL(embed_tokens, EmbedTokens, GPUACTORS_DECLARE_KERNEL, KernelOf);
LLM_DECLARE_KERNEL(rms_norm, RmsNorm, GPUACTORS_DECLARE_BLOCK_KERNEL, BlockKernelOf);
LLM_DECLARE_KERNEL(rotate_and_keep, RotateAndKeep, GPUACTORS_DECLARE_KERNEL, KernelOf);
LLM_DECLARE_KERNEL(attend, Attend, GPUACTORS_DECLARE_BLOCK_KERNEL, BlockKernelOf);
LLM_DECLARE_KERNEL(silu_times, SiluTimes, GPUACTORS_DECLARE_KERNEL, KernelOf);
GPUACTORS_DECLARE_BLOCK_KERNEL(choose_tokens, ChooseTokens);

} // namespace llm
