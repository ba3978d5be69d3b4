// The messages of the tests, made in one expression.
#pragma once

#include <gpuactors/test/messages.pb.h>

#include <string>
#include <utility>

namespace gpuactors::test {

inline Number number(double value) {
  Number result;
  result.set_value(value);
  return result;
}

inline Text text(std::string value) {
  Text result;
  result.set_text(std::move(value));
  return result;
}

} // namespace gpuactors::test
