// What a member of a collective group calls, as the others see it. Internal to the layer.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/collective/reduction.hpp>
#include <gpuactors/collective/ring.hpp>
#include <gpuactors/v1/collective.pb.h>

#include <string>

namespace gpuactors::detail {

/// The numbers are part of the wire format: append only.
enum class OperationKind : std::uint8_t { all_reduce = 1, broadcast = 2, all_gather = 3, barrier = 4 };

/// The same at all members. A plain value.
struct Operation {
  OperationKind kind = OperationKind::barrier;
  DType dtype = DType::i32;
  Reduction reduction = Reduction::sum;
  /// Of the whole array.
  std::size_t elements = 0;
  std::size_t root = 0;

  friend bool operator==(const Operation&, const Operation&) = default;
};

/// "all_reduce of 10 f32 by max", for people.
[[nodiscard]] std::string to_string(const Operation& operation);

[[nodiscard]] v1::CollectiveOperation to_message(const Operation& operation);
/// @returns `invalid_argument` for numbers that this version does not know.
[[nodiscard]] Result<Operation> from_message(const v1::CollectiveOperation& message);

/// Returns how its array goes around.
[[nodiscard]] Course course_of(OperationKind kind) noexcept;

} // namespace gpuactors::detail
