// The replies of one stream as one.
#pragma once

#include <apps/serve/protocol/held_bytes.hpp>
#include <apps/serve/service.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace serve {

/// Puts outputs of the same name together: along the only dimension that their description leaves open; where it leaves
/// none open, and each reply has one text, to one text. What came once stays as it is. One thread at a time.
class JoinedReply {
public:
  /// @param head What it says of itself where nothing is added.
  /// @param described The outputs of the model.
  /// @param most The bytes that all outputs together may have.
  JoinedReply(InferReply head, std::vector<TensorSpec> described, std::size_t most, std::shared_ptr<HeldBytes> held)
    : described_(std::move(described)), most_(most), share_(std::move(held)), head_(std::move(head)) {
    // nop
  }

  /// @returns `unsupported` for outputs that cannot be put together, and for too many bytes; `no_capacity` where the
  ///          server holds too much.
  [[nodiscard]] gpuactors::Result<void> add(const InferReply& reply);

  /// All that was added; the head alone if nothing was.
  [[nodiscard]] InferReply take() &&;

private:
  struct Output {
    NamedTensor first;
    std::size_t count = 1;
    /// The text, or the elements, of all.
    std::string all;
  };

  [[nodiscard]] gpuactors::Result<void> join(Output& output, const NamedTensor& more);
  /// Whether it is one text.
  [[nodiscard]] static bool is_text(const NamedTensor& output);
  /// Which dimension it grows along; none if there is no such.
  [[nodiscard]] std::ptrdiff_t growing_axis(const Output& output) const;

  std::vector<TensorSpec> described_;
  std::size_t most_;
  HeldShare share_;
  std::size_t bytes_ = 0;
  InferReply head_;
  std::vector<Output> outputs_;
};

} // namespace serve
