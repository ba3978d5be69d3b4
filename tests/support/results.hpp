// Results in tests: the value or a failure that shows the error, and what an error says.
#pragma once

#include "catch.hpp"

#include <gpuactors/base/result.hpp>

#include <string_view>
#include <utility>

namespace gpuactors::test {

/// The value, or a failure of the test that shows the error.
template <class T>
T must(Result<T> result) {
  if (!result)
    FAIL(to_string(result.error()));
  return std::move(*result);
}

inline void must(const Result<void>& result) {
  if (!result)
    FAIL(to_string(result.error()));
}

/// The code of an error, or a failure of the test if there is none.
template <class T>
Errc code_of(const Result<T>& result) {
  REQUIRE_FALSE(result.has_value());
  UNSCOPED_INFO(result.error().message());
  return result.error().code();
}

/// Whether the text of an error has these words; shows it if not.
inline bool says(const Error& error, std::string_view words) {
  UNSCOPED_INFO(error.message());
  return error.message().find(words) != std::string::npos;
}

/// Whether an error has this code and these words; shows it if not.
inline bool fails(const Error& error, Errc code, std::string_view words) {
  return says(error, words) && error.code() == code;
}

template <class T>
bool says(const Result<T>& result, std::string_view words) {
  REQUIRE_FALSE(result.has_value());
  return says(result.error(), words);
}

} // namespace gpuactors::test
