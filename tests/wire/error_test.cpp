#include "system.hpp"

#include <gpuactors/wire/errors.hpp>

#include <support/catch.hpp>

using namespace gpuactors;
using gpuactors::test::System;

TEST_CASE("an error crosses CAF's border with its code and its text", "[wire]") {
  const System system;
  for (int number = 1; number < 256; ++number) {
    const auto code = errc_from_number(static_cast<std::uint8_t>(number));
    if (static_cast<int>(code) != number)
      continue; // no code has this number
    const Error error{code, "text " + std::to_string(number)};
    if (code == Errc::not_begun) // goes as CAF's own error, which processes of earlier releases know, too
      CHECK(from_caf(to_caf(error)) == Error{code, "it ended before the call began"});
    else
      CHECK(from_caf(to_caf(error)) == error);
  }
}

TEST_CASE("CAF's own errors become errors that say what to do", "[wire]") {
  const System system;
  CHECK(from_caf(caf::make_error(caf::sec::request_receiver_down)).code() == Errc::not_begun);
  CHECK(from_caf(caf::make_error(caf::sec::request_timeout)).code() == Errc::deadline_exceeded);
  CHECK(from_caf(caf::make_error(caf::sec::connection_timeout)).code() == Errc::unavailable);
  CHECK(from_caf(caf::make_error(caf::sec::unexpected_message)).code() == Errc::invalid_argument);
  const auto other = from_caf(caf::make_error(caf::sec::runtime_error, "of its own"));
  CHECK(other.code() == Errc::internal);
  CHECK(other.message().find("of its own") != std::string::npos);
}
