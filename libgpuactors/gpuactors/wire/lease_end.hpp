// The report that a lease has ended, and errors in messages.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/v1/control.pb.h>

namespace gpuactors {

/// Says in a message with the fields `error` and `text` what went wrong.
template <class Message>
void set_error(Message& message, const Error& error) {
  message.set_error(static_cast<std::uint32_t>(error.code()));
  message.set_text(error.message());
}

/// Returns what such a message says.
/// @param otherwise is the code of one that does not say it.
template <class Message>
[[nodiscard]] Error error_in(const Message& message, Errc otherwise) {
  return {message.error() != 0 ? errc_from_number(message.error()) : otherwise, message.text()};
}

/// It ended in order.
[[nodiscard]] inline v1::LeaseEnded lease_end(std::uint64_t lease, std::uint64_t epoch) {
  v1::LeaseEnded ended;
  ended.set_lease(lease);
  ended.set_epoch(epoch);
  return ended;
}

/// It was ended by an error, or could not begin.
[[nodiscard]] inline v1::LeaseEnded lease_end(std::uint64_t lease, std::uint64_t epoch, const Error& error) {
  auto ended = lease_end(lease, epoch);
  set_error(ended, error);
  return ended;
}

} // namespace gpuactors
