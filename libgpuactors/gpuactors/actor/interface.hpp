// Interfaces: the names of tasks, methods and actor types as constants that carry their message types. Implementers and
// users include the same constants, and the compiler checks both.
//
//   inline constexpr gpuactors::ActorKind<ScalerConfig> scaler{"scaler"};
//   inline constexpr gpuactors::Method<Vector, Vector> scale{"scale"};
//
//   GPUACTORS_ACTOR(scaler, Scaler).method(scale, &Scaler::scale);
//
//   GPUACTORS_LET(actor, cluster.spawn(scaler, config));
//   Future<Vector> scaled = actor.call(scale, vector);
//
// Wherever such a constant is accepted, a plain string is too, for names and types that are only known at run time.
#pragma once

#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/payload.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <algorithm>
#include <string_view>

namespace gpuactors {

/// Returns whether `name` is valid for tasks, actors and methods: 1 to `limits::name_length` letters, digits, _ - . /
[[nodiscard]] constexpr bool is_type_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= limits::name_length && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-'
           || c == '.' || c == '/';
  });
}

namespace detail {

/// Not defined as a constant, so that a malformed name stops the compilation here, with this name in its message.
inline void a_name_is_made_of_letters_digits_and_these_four() {
  // nop: _ - . /
}

/// A name that is known to be well-formed when the program is compiled.
class TypeName {
public:
  /// Implicit, so that a literal serves as a name.
  consteval TypeName(const char* name) : name_(name) {
    if (!is_type_name(name))
      a_name_is_made_of_letters_digits_and_these_four();
  }

  [[nodiscard]] constexpr std::string_view name() const noexcept {
    return name_;
  }

private:
  std::string_view name_;
};

struct TaskName : TypeName {};
struct MethodName : TypeName {};

} // namespace detail

/// A task that takes an `In` and answers with an `Out`.
template <ProtobufMessage In = google::protobuf::Empty, ProtobufMessage Out = google::protobuf::Empty>
struct Task : detail::TaskName {
  constexpr explicit Task(TypeName name) : TaskName{name} {
    // nop
  }

  using Input = In;
  using Output = Out;
  static constexpr bool streamed = false;
};

/// A task that takes an `In` and answers with a stream of `Item`s.
template <ProtobufMessage In, ProtobufMessage Item>
struct StreamTask : detail::TaskName {
  constexpr explicit StreamTask(TypeName name) : TaskName{name} {
    // nop
  }

  using Input = In;
  using Output = Item;
  static constexpr bool streamed = true;
};

/// A method that takes an `In` and answers with an `Out`. Several actor types may have it.
template <ProtobufMessage In = google::protobuf::Empty, ProtobufMessage Out = google::protobuf::Empty>
struct Method : detail::MethodName {
  constexpr explicit Method(TypeName name) : MethodName{name} {
    // nop
  }

  using Input = In;
  using Output = Out;
  static constexpr bool streamed = false;
};

/// A method that takes an `In` and answers with a stream of `Item`s.
template <ProtobufMessage In, ProtobufMessage Item>
struct StreamMethod : detail::MethodName {
  constexpr explicit StreamMethod(TypeName name) : MethodName{name} {
    // nop
  }

  using Input = In;
  using Output = Item;
  static constexpr bool streamed = true;
};

/// An actor type that is constructed from a `Config`.
template <ProtobufMessage Config = google::protobuf::Empty>
struct ActorKind : detail::TypeName {
  constexpr explicit ActorKind(TypeName name) : TypeName(name) {
    // nop
  }

  using Configuration = Config;
};

} // namespace gpuactors
