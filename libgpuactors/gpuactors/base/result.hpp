// Result<T>: a value or an Error. The subset of C++23's std::expected that this project uses, with the same names. Code
// that checks before it accesses a value, as it has to here, can use the standard type instead once every supported
// compiler has it.
#pragma once

#include <gpuactors/base/error.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

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

namespace detail {

/// End the program with a line on standard error, because the absent value or error of a `Result` was accessed.
[[noreturn]] void no_value(const Error& error) noexcept;
[[noreturn]] void no_error() noexcept;

template <class T>
struct IsResult : std::false_type {};

/// Whether a `Result<T>` can be made from a value of type `U`. Not from another `Result`: it would convert to bool, and
/// an error would become `false`.
template <class T, class U>
inline constexpr bool makes_value =
    std::is_constructible_v<
        T,
        U&&> && !std::is_same_v<std::decay_t<U>, Failure> && (IsResult<T>::value || !IsResult<std::decay_t<U>>::value);

} // namespace detail

/// A value of type `T`, or an `Error` instead. Accessing the absent side ends the program: check first.
///
/// Moving a `T` must not throw; the program ends if it does. Not a `std::variant`, of which each type has some hundred
/// functions that each source compiles anew: that was a tenth of the time to compile this library.
template <class T = void>
class [[nodiscard]] Result {
public:
  using value_type = T;

  template <class U = T>
  requires(detail::makes_value<T, U> && !std::is_same_v<std::decay_t<U>, Result>) explicit(
      !std::is_convertible_v<U&&, T>) Result(U&& value) // NOLINT(*-explicit-*)
    : value_(std::forward<U>(value)), has_value_(true) {
    // nop
  }

  Result(Failure failure) // NOLINT(*-explicit-*)
    : error_(std::move(failure).error()), has_value_(false) {
    // nop
  }

  Result(const Result& other) requires std::is_copy_constructible_v<T> : has_value_(other.has_value_) {
    if (has_value_)
      std::construct_at(&value_, other.value_);
    else
      std::construct_at(&error_, other.error_);
  }

  Result(Result&& other) noexcept : has_value_(other.has_value_) {
    take(std::move(other));
  }

  Result& operator=(const Result& other) requires std::is_copy_constructible_v<T> {
    if (this != &other)
      *this = Result{other}; // a copy that throws leaves this one as it is
    return *this;
  }

  Result& operator=(Result&& other) noexcept {
    if (this != &other) {
      destroy();
      has_value_ = other.has_value_;
      take(std::move(other));
    }
    return *this;
  }

  ~Result() {
    destroy();
  }

  [[nodiscard]] bool has_value() const noexcept {
    return has_value_;
  }

  explicit operator bool() const noexcept {
    return has_value();
  }

  [[nodiscard]] T& value() & noexcept {
    check();
    return value_;
  }

  [[nodiscard]] const T& value() const& noexcept {
    check();
    return value_;
  }

  [[nodiscard]] T&& value() && noexcept {
    check();
    return std::move(value_);
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
    if (has_value())
      detail::no_error();
    return error_;
  }

  template <class U>
  [[nodiscard]] T value_or(U&& fallback) const& {
    return has_value() ? value() : static_cast<T>(std::forward<U>(fallback));
  }

private:
  void check() const noexcept {
    if (!has_value())
      detail::no_value(error_);
  }

  /// Of the side that `has_value_` names; this one has none yet.
  void take(Result&& other) noexcept {
    if (has_value_)
      std::construct_at(&value_, std::move(other.value_));
    else
      std::construct_at(&error_, std::move(other.error_));
  }

  void destroy() noexcept {
    if (has_value_)
      std::destroy_at(&value_);
    else
      std::destroy_at(&error_);
  }

  union {
    T value_;
    Error error_;
  };
  bool has_value_;
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
    if (!error_)
      detail::no_error();
    return *error_;
  }

private:
  std::optional<Error> error_;
};

namespace detail {

template <class T>
struct IsResult<Result<T>> : std::true_type {};

} // namespace detail

/// An error as an exception, for constructors of actors, which cannot return one: the caller of `spawn` gets it with
/// its code. The library itself throws only in `value_or_throw` and, inside code that it calls, for two mistakes:
/// `HolderContext::gpu` with an index outside the lease, and a block kernel on a host device that uses too much shared
/// memory. The standard library throws if there is no memory, or no thread for a host device.
class FailedResult : public std::exception {
public:
  explicit FailedResult(Error error) : error_(std::move(error)) {
    // nop
  }

  [[nodiscard]] const Error& error() const noexcept {
    return error_;
  }

  [[nodiscard]] const char* what() const noexcept override {
    return error_.message().c_str();
  }

private:
  Error error_;
};

/// Returns the value of a result, or throws its error as a `FailedResult`.
template <class T>
T value_or_throw(Result<T> result) {
  if (!result)
    throw FailedResult{result.error()};
  if constexpr (!std::is_void_v<T>)
    return std::move(*result);
}

} // namespace gpuactors

/// Returns the error of an expression (a `Result`) from the enclosing function, if there is one.
#define GPUACTORS_TRY(...)                                                                                             \
  do {                                                                                                                 \
    auto gpuactors_result = (__VA_ARGS__);                                                                             \
    static_assert(::gpuactors::detail::IsResult<decltype(gpuactors_result)>::value,                                    \
                  "GPUACTORS_TRY takes a Result; a Future becomes one with .get()");                                   \
    if (!gpuactors_result)                                                                                             \
      return ::gpuactors::fail(gpuactors_result.error());                                                              \
  } while (false)

/// Declares `name` with the value of an expression (a `Result`), or returns its error from the enclosing function. The
/// value stays in a second variable, to which `name` refers; `return std::move(name);` moves it out. The macro expands
/// to several statements, so it needs braces after an `if`.
#define GPUACTORS_LET(name, ...)                                                                                       \
  auto name##_result = (__VA_ARGS__);                                                                                  \
  static_assert(::gpuactors::detail::IsResult<decltype(name##_result)>::value,                                         \
                "GPUACTORS_LET takes a Result; a Future becomes one with .get()");                                     \
  if (!name##_result)                                                                                                  \
    return ::gpuactors::fail(name##_result.error());                                                                   \
  auto& name = *name##_result // NOLINT(bugprone-macro-parentheses)
