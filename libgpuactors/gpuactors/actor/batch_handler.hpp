// Turns a user's function of a batch into a handler: reads each input as the function's message type, and makes one
// answer for each call from the function's result. Internal to the layer.
#pragma once

#include <gpuactors/actor/batch.hpp>
#include <gpuactors/actor/handler.hpp>

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuactors::detail {

/// The message type in the result of a batched method: a vector of answers, or of their Results, or a Result of a
/// vector. `void` for anything else.
template <class R>
struct BatchOutputOf {
  using Type = void;
};
template <ProtobufMessage Out>
struct BatchOutputOf<std::vector<Out>> {
  using Type = Out;
};
template <ProtobufMessage Out>
struct BatchOutputOf<std::vector<Result<Out>>> {
  using Type = Out;
};
template <ProtobufMessage Out>
struct BatchOutputOf<Result<std::vector<Out>>> {
  using Type = Out;
};

/// The signature of a batched method; has no types for any other function.
template <class F>
struct BatchSignature {
  static constexpr bool fits = false;
};
template <class R, class C, class I>
struct BatchSignature<R (C::*)(const BatchOf<I>&)> {
  static constexpr bool fits = true;
  using Object = C;
  using In = I;
  using Out = typename BatchOutputOf<R>::Type;
};
template <class R, class C, class I>
struct BatchSignature<R (C::*)(const BatchOf<I>&) const> : BatchSignature<R (C::*)(const BatchOf<I>&)> {};
template <class R, class C, class I>
struct BatchSignature<R (C::*)(const BatchOf<I>&) noexcept> : BatchSignature<R (C::*)(const BatchOf<I>&)> {};
template <class R, class C, class I>
struct BatchSignature<R (C::*)(const BatchOf<I>&) const noexcept> : BatchSignature<R (C::*)(const BatchOf<I>&)> {};

/// Stops the compilation if a function cannot be a batched method.
/// @tparam A the actor's class.
/// @returns whether it can be one.
template <class A, class S>
constexpr bool check_batch_method() {
  static_assert(S::fits,
                "a method of a batch is R name(const gpuactors::BatchOf<Message>&), a member of the actor's class");
  if constexpr (S::fits) {
    static_assert(!std::is_void_v<typename S::Out>,
                  "a method of a batch returns one answer for each call: Result<std::vector<Out>>, std::vector<Out> or "
                  "std::vector<Result<Out>>");
    static_assert(std::is_base_of_v<typename S::Object, A>,
                  "a method is a member of the actor's own class, or of a base of it");
    return !std::is_void_v<typename S::Out>;
  }
  return false;
}

/// A type-erased function of `Subject&` and the calls of a batch: one answer for each of them.
template <class Subject>
using BatchHandler = std::function<std::vector<Result<Payload>>(Subject&, std::span<const BatchedCall>)>;

/// Fills the empty ones of `answers`, in order, with the elements of `made`.
/// @returns an error if `made` has too few or too many.
template <class Out>
Result<void> hand_out(std::vector<Out> made, std::vector<std::optional<Result<Payload>>>& answers, std::size_t asked) {
  if (made.size() != asked)
    return fail(Errc::task_failed,
                fmt::format("the method has made {} answers for a batch of {} calls", made.size(), asked));
  auto next = made.begin();
  for (auto& answer : answers)
    if (!answer)
      answer = to_payload(std::move(*next++));
  return {};
}

/// Wraps `function(subject, batch)`, and lets its exceptions pass.
template <class S, class Subject, class F>
BatchHandler<Subject> make_batch_handler(F function) {
  return [function = std::move(function)](Subject& subject, std::span<const BatchedCall> calls) {
    using In = typename S::In;
    std::vector<std::optional<Result<Payload>>> answers(calls.size());
    std::vector<typename BatchOf<In>::Entry> entries;
    entries.reserve(calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (auto message = calls[i].input.template share_as<In>())
        entries.push_back({std::move(*message), calls[i].deadline, calls[i].withdrawn, calls[i].control});
      else
        answers[i] = fail(message.error());
    }
    // A message that cannot be read fails only its own call.
    Result<void> done;
    if (const auto asked = entries.size(); asked > 0) {
      auto made = function(subject, BatchOf<In>{std::move(entries)});
      if constexpr (IsResult<decltype(made)>::value)
        done = made ? hand_out(std::move(*made), answers, asked) : Result<void>{fail(made.error())};
      else
        done = hand_out(std::move(made), answers, asked);
    }
    std::vector<Result<Payload>> all;
    all.reserve(answers.size());
    for (auto& answer : answers)
      all.push_back(answer ? std::move(*answer) : Result<Payload>{fail(done.error())});
    return all;
  };
}

} // namespace gpuactors::detail
