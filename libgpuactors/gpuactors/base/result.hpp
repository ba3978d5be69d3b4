// Result<T>: a value or an Error. The subset of C++23's std::expected that this project uses, with the same names, so
// the standard type can replace it once every supported compiler has it.
#pragma once

#include <gpuactors/base/error.hpp>

#include <cassert>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace gpuactors {

/// The error for a `Result` of any type.
class [[nodiscard]] Failure {
public:
  explicit Failure(Error error) : error_(std::move(error)) {
    // nop
  }

  [[nodiscard]] const Error& error() const& noexcept {
    return error_;
  }

  [[nodiscard]] Error&& error() && noexcept {
    return std::move(error_);
  }

private:
  Error error_;
};

/// Creates a failure that converts to any `Result`: `return fail(Errc::not_found, "no actor named \"x\"");`
inline Failure fail(Errc code, std::string message) {
  return Failure{Error{code, std::move(message)}};
}

/// Converts an error for a `Result` of another type.
inline Failure fail(Error error) {
  return Failure{std::move(error)};
}

/// A value of type `T`, or an `Error` instead. Accessing the absent side is undefined behaviour: check first.
template <class T = void>
class [[nodiscard]] Result {
public:
  using value_type = T;

  template <class U = T>
  requires(std::is_constructible_v<
               T, U&&> && !std::is_same_v<std::decay_t<U>, Result> && !std::is_same_v<std::decay_t<U>, Failure>)
      Result(U&& value)
    : state_(std::in_place_index<0>, std::forward<U>(value)) { // NOLINT(*-explicit-*)
    // nop
  }

  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure).error()) { // NOLINT(*-explicit-*)
    // nop
  }

  [[nodiscard]] bool has_value() const noexcept {
    return state_.index() == 0;
  }

  explicit operator bool() const noexcept {
    return has_value();
  }

  [[nodiscard]] T& value() & noexcept {
    assert(has_value());
    return *std::get_if<0>(&state_);
  }

  [[nodiscard]] const T& value() const& noexcept {
    assert(has_value());
    return *std::get_if<0>(&state_);
  }

  [[nodiscard]] T&& value() && noexcept {
    assert(has_value());
    return std::move(*std::get_if<0>(&state_));
  }

  [[nodiscard]] T& operator*() & noexcept {
    return value();
  }

  [[nodiscard]] const T& operator*() const& noexcept {
    return value();
  }

  [[nodiscard]] T&& operator*() && noexcept {
    return std::move(*this).value();
  }

  [[nodiscard]] T* operator->() noexcept {
    return &value();
  }

  [[nodiscard]] const T* operator->() const noexcept {
    return &value();
  }

  [[nodiscard]] const Error& error() const noexcept {
    assert(!has_value());
    return *std::get_if<1>(&state_);
  }

  template <class U>
  [[nodiscard]] T value_or(U&& fallback) const& {
    return has_value() ? value() : static_cast<T>(std::forward<U>(fallback));
  }

private:
  std::variant<T, Error> state_;
};

/// Success, or an `Error` instead.
template <>
class [[nodiscard]] Result<void> {
public:
  using value_type = void;

  Result() = default;

  Result(Failure failure) : error_(std::move(failure).error()) { // NOLINT(*-explicit-*)
    // nop
  }

  [[nodiscard]] bool has_value() const noexcept {
    return !error_.has_value();
  }

  explicit operator bool() const noexcept {
    return has_value();
  }

  [[nodiscard]] const Error& error() const noexcept {
    assert(error_.has_value());
    return *error_;
  }

private:
  std::optional<Error> error_;
};

} // namespace gpuactors

/// Returns the error of `expression` (a `Result`) from the enclosing function, if there is one.
#define GPUACTORS_TRY(expression)                                                                                      \
  do {                                                                                                                 \
    if (auto gpuactors_result = (expression); !gpuactors_result)                                                       \
      return ::gpuactors::fail(gpuactors_result.error());                                                              \
  } while (false)

/// Declares `name` with the value of `expression` (a `Result`), or returns its error from the enclosing function.
#define GPUACTORS_LET(name, expression)                                                                                \
  auto name##_result = (expression);                                                                                   \
  if (!name##_result)                                                                                                  \
    return ::gpuactors::fail(name##_result.error());                                                                   \
  auto& name = *name##_result // NOLINT(bugprone-macro-parentheses)
