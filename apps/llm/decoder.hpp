// Decoder: the weights, the cache and the steps of a language model on one device.
#pragma once

#include <apps/llm/kernels.hpp>
#include <apps/llm/weights.hpp>

#include <array>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace llm {

/// How much a decoder can do at once.
struct Room {
  /// Texts that run.
  std::int64_t slots = 1;
  /// Tokens of a step; at least as many as slots.
  std::int64_t rows = 1;
  /// Positions of a text.
  std::int64_t positions = 1;
  /// Pages of the cache.
  std::int64_t pages = 1;
  /// Whether texts that begin alike share pages.
  bool shares_pages = true;
};

/// A token that a step looks at.
struct Row {
  std::int32_t token;
  std::int32_t position;
  std::int32_t slot;
};

/// A row after which the next token is chosen.
struct Wanted {
  std::int32_t row;
  Choice choice;
};

/// What a step does: rows of any texts, those of one text in the order of their positions, without gaps.
struct Step {
  std::vector<Row> rows;
  /// At most one a slot.
  std::vector<Wanted> wanted;
};

/// For the thread of its context.
class Decoder {
public:
  /// Returns the bytes of a page in all layers.
  [[nodiscard]] static std::uint64_t page_bytes(const Config& config, gpuactors::DType dtype);

  /// Returns the bytes that a decoder allocates beside weights and pages.
  [[nodiscard]] static std::uint64_t working_bytes(const Config& config, gpuactors::DType dtype, const Room& room);

  static gpuactors::Result<std::unique_ptr<Decoder>> make(gpuactors::Stream& stream, Config config, Weights weights,
                                                          const Room& room);

  [[nodiscard]] const Config& config() const noexcept {
    return config_;
  }

  [[nodiscard]] const Room& room() const noexcept {
    return room_;
  }

  /// Returns the logits of the last step, a row for each that was wanted.
  [[nodiscard]] const gpuactors::Tensor& logits() const noexcept {
    return logits_;
  }

  /// Gives a slot these pages, for its positions in their order.
  void set_pages(std::int64_t slot, std::span<const std::int32_t> pages);

  /// Captures the steps of one token for each text, of all sizes, so that none is slow when it comes for the first
  /// time.
  gpuactors::Result<void> warm_up();

  /// Runs a step and returns the tokens that were chosen, in the order of `wanted`. The thread waits for it.
  ///
  /// A step of one token for each text, which is what most are, is a graph: for so many texts, rounded up to a power of
  /// two. It is captured by `warm_up`, or when it comes for the second time.
  gpuactors::Result<std::vector<std::int32_t>> run(const Step& step);

  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  /// Waits for what still reads the memory of this object.
  ~Decoder();

private:
  /// Parts of the inputs, in words: tokens, positions and slots of the rows, then wanted rows and choices.
  struct Layout {
    std::size_t positions;
    std::size_t slots;
    std::size_t wanted;
    std::size_t choices;
    std::size_t words;
  };

  Decoder(gpuactors::Stream& stream, Config config, Weights weights, const Room& room);
  gpuactors::Result<void> allocate();
  /// Writes a step's inputs, with rows for nobody behind its own up to `rows`.
  void write_inputs(const Step& step, std::int64_t rows, std::int64_t wanted);
  gpuactors::Result<void> upload_pages();
  /// Queues a step: from the inputs' way to the device to the way of what is chosen from there.
  gpuactors::Result<void> queue(std::int64_t rows, std::int64_t wanted);
  /// The same for a step of one token for each text.
  gpuactors::Result<void> queue_often(std::int64_t rows);
  gpuactors::Result<void> start(const Step& step);
  template <class W>
  gpuactors::Result<void> queue_layers(std::int64_t rows, std::int64_t wanted);
  template <class W>
  gpuactors::Result<void> queue_layer(std::int64_t rows, std::size_t index);
  /// c (rows x outputs of the weights) = a weights^T + beta c
  gpuactors::Result<void> multiply(std::int64_t rows, const void* a, const gpuactors::Tensor& weights, float* c,
                                   double beta);

  [[nodiscard]] const std::int32_t* input(std::size_t word) const;
  [[nodiscard]] Places places() const;
  [[nodiscard]] Heads heads() const;

  gpuactors::Stream& stream_;
  Config config_;
  Weights weights_;
  Room room_;
  std::int64_t pages_a_slot_;
  Layout layout_;
  gpuactors::Tensor frequencies_;
  std::vector<gpuactors::Tensor> keys_;
  std::vector<gpuactors::Tensor> values_;
  /// Of the slots, and of one for nobody.
  std::vector<std::int32_t> page_table_;
  /// Slots whose pages the device is still to get.
  std::vector<std::int64_t> changed_slots_;
  gpuactors::Tensor device_pages_;
  gpuactors::HostBuffer host_inputs_;
  gpuactors::HostBuffer host_chosen_;
  gpuactors::Tensor inputs_;
  gpuactors::Tensor x_;
  gpuactors::Tensor normed_;
  gpuactors::Tensor qkv_;
  gpuactors::Tensor attended_;
  gpuactors::Tensor gate_up_;
  gpuactors::Tensor inner_;
  gpuactors::Tensor last_;
  gpuactors::Tensor logits_;
  gpuactors::Tensor chosen_;
  /// A step of one token for each text: it runs as it is once, and as a graph from then on.
  struct Often {
    bool has_run = false;
    /// Where it cannot be a graph, for example for lack of memory, it goes on without.
    bool may_be_graph = true;
    gpuactors::Graph graph = {};
  };
  /// By the number of rows.
  std::map<std::int64_t, Often> often_;
};

} // namespace llm
