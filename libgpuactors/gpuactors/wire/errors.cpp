#include <gpuactors/wire/errors.hpp>

#include <fmt/format.h>

namespace gpuactors {

caf::error to_caf(const Error& error) {
  // As CAF answers for an actor that has ended, what is left in its mailbox included.
  if (error.code() == Errc::not_begun)
    return caf::make_error(caf::sec::request_receiver_down);
  return caf::make_error(caf::sec::runtime_error, static_cast<std::uint8_t>(error.code()), error.message());
}

Error from_caf(const caf::error& error) {
  if (error == caf::sec::runtime_error && error.context().match_elements<std::uint8_t, std::string>())
    return Error{errc_from_number(error.context().get_as<std::uint8_t>(0)), error.context().get_as<std::string>(1)};
  if (error == caf::sec::request_receiver_down)
    return Error{Errc::not_begun, "it ended before the call began"};
  if (error == caf::sec::request_timeout)
    return Error{Errc::deadline_exceeded, "no answer within the time given to the request"};
  if (error == caf::sec::connection_timeout)
    return Error{Errc::unavailable, "the connection was closed, since nothing came over it in time"};
  if (error == caf::sec::unexpected_message)
    return Error{Errc::invalid_argument, "the actor takes (std::string method, gpuactors::Payload), not this message"};
  return Error{Errc::internal, fmt::format("CAF reported {}", caf_version::render(error))};
}

} // namespace gpuactors
