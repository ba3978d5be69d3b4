#include <gpuactors/collective/detail/operation.hpp>

#include <fmt/format.h>

namespace gpuactors::detail {

std::string to_string(const Operation& operation) {
  const auto array = [&] { return fmt::format("{} {}", operation.elements, gpuactors::to_string(operation.dtype)); };
  switch (operation.kind) {
  case OperationKind::all_reduce:
    return fmt::format("all_reduce of {} by {}", array(), gpuactors::to_string(operation.reduction));
  case OperationKind::broadcast:
    return fmt::format("broadcast of {} from rank {}", array(), operation.root);
  case OperationKind::all_gather:
    return fmt::format("all_gather of {} in all", array());
  case OperationKind::barrier:
    return "barrier";
  }
  return "?";
}

v1::CollectiveOperation to_message(const Operation& operation) {
  v1::CollectiveOperation message;
  message.set_kind(static_cast<std::uint32_t>(operation.kind));
  message.set_dtype(static_cast<std::uint32_t>(operation.dtype));
  message.set_reduction(static_cast<std::uint32_t>(operation.reduction));
  message.set_elements(operation.elements);
  message.set_root(operation.root);
  return message;
}

Result<Operation> from_message(const v1::CollectiveOperation& message) {
  const auto is_in = [](std::uint32_t number, auto first, auto last) {
    return number >= static_cast<std::uint32_t>(first) && number <= static_cast<std::uint32_t>(last);
  };
  const bool is_type = message.dtype() <= 0xFF && size_of(static_cast<DType>(message.dtype())) > 0;
  if (!is_in(message.kind(), OperationKind::all_reduce, OperationKind::barrier) || !is_type
      || !is_in(message.reduction(), Reduction::sum, Reduction::max))
    return fail(Errc::invalid_argument,
                fmt::format("a collective operation of kind {} on elements of type {} by {} is not known here: all "
                            "members must be of one version",
                            message.kind(), message.dtype(), message.reduction()));
  return Operation{static_cast<OperationKind>(message.kind()), static_cast<DType>(message.dtype()),
                   static_cast<Reduction>(message.reduction()), static_cast<std::size_t>(message.elements()),
                   static_cast<std::size_t>(message.root())};
}

Course course_of(OperationKind kind) noexcept {
  if (kind == OperationKind::broadcast)
    return Course::broadcast;
  return kind == OperationKind::all_gather ? Course::gather : Course::reduce;
}

} // namespace gpuactors::detail
