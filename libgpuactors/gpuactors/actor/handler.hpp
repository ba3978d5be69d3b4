// Turns a user's function into a handler: reads the input as the function's message type, and converts its result into
// an answer.
//
// A function takes its subject (a TaskContext&, or the actor), `const In&`, and for a streamed reply `ReplyStream<T>&`.
// It returns a message, a Result of one, a Future of one (answered when that is ready, while the actor continues), void
// or Result<void> (answered with google.protobuf.Empty).
#pragma once

#include <gpuactors/actor/call_frame.hpp>
#include <gpuactors/actor/interface.hpp>
#include <gpuactors/base/future.hpp>
#include <gpuactors/wire/protobuf.hpp>

#include <functional>
#include <tuple>
#include <type_traits>

namespace gpuactors::detail {

// -- what a function takes and gives --------------------------------------------------------------

template <class T>
struct IsReplyStream : std::false_type {};
template <class T>
struct IsReplyStream<ReplyStream<T>> : std::true_type {
  using Item = T;
};

/// The message type of a function's result.
template <class R>
struct OutputOf {
  static_assert(ProtobufMessage<R>, "return a Protobuf message, a Result or Future of one, or void");
  using Type = R;
};
template <>
struct OutputOf<void> {
  using Type = google::protobuf::Empty;
};
template <class T>
struct OutputOf<Result<T>> : OutputOf<T> {};
template <class T>
struct OutputOf<Future<T>> : OutputOf<T> {};

template <class... Inputs>
struct FirstOf {
  using Type = google::protobuf::Empty;
};
template <class Input, class... Rest>
struct FirstOf<Input, Rest...> {
  using Type = Input;
};

/// `Subject` is a task's context, or the object of a method.
template <class R, class Subject, class... Inputs>
struct SignatureOf {
  static_assert(sizeof...(Inputs) == 1 || sizeof...(Inputs) == 2,
                "a task is R name(TaskContext&, const Message&) and a method R name(const Message&), with a "
                "ReplyStream<Item>& behind the message where the reply is a stream; one that needs no input takes a "
                "const google::protobuf::Empty&");
  using Return = R;
  using Object = std::remove_cvref_t<Subject>;
  using First = typename FirstOf<Inputs...>::Type;
  static_assert(!std::is_reference_v<
                    First> || (std::is_lvalue_reference_v<First> && std::is_const_v<std::remove_reference_t<First>>),
                "the message is taken by const reference: const Message&");
  using In = std::decay_t<typename FirstOf<Inputs...>::Type>;
  static_assert(ProtobufMessage<In>, "the input must be a Protobuf message, taken by const reference");
  static constexpr bool streamed = sizeof...(Inputs) == 2;
};

/// True if the type has exactly one call operator, which is neither a template nor overloaded.
template <class F, class = void>
struct HasCall : std::false_type {};
template <class F>
struct HasCall<F, std::void_t<decltype(&std::decay_t<F>::operator())>> : std::true_type {};

template <class F, bool has_call = HasCall<F>::value>
struct Signature {
  static_assert(has_call,
                "a task is R name(TaskContext&, const Message&), with a ReplyStream<Item>& behind it where it "
                "streams: a function or a lambda without auto");
};
template <class F>
struct Signature<F, true> : Signature<decltype(&std::decay_t<F>::operator())> {};
template <class R, class S, class... As>
struct Signature<R (*)(S, As...), false> : SignatureOf<R, S, As...> {
  using Args = std::tuple<As...>;
};
template <class R, class S, class... As>
struct Signature<R (*)(S, As...) noexcept, false> : SignatureOf<R, S, As...> {
  using Args = std::tuple<As...>;
};
template <class R, class C, class S, class... As>
struct Signature<R (C::*)(S&, As...) const, false> : SignatureOf<R, S, As...> {
  using Args = std::tuple<As...>;
};
template <class R, class C, class S, class... As>
struct Signature<R (C::*)(S&, As...), false> : SignatureOf<R, S, As...> {
  using Args = std::tuple<As...>;
};

/// The signature of a method: its object is the subject.
template <class F>
struct MethodSignature {
  static_assert(!std::is_same_v<F, F>, "a method is R name(const Message&) or R name(const Message&, "
                                       "ReplyStream<Item>&), a member of the actor's class");
};
template <class R, class C, class... As>
struct MethodSignature<R (C::*)(As...)> : SignatureOf<R, C, As...> {
  using Args = std::tuple<As...>;
};
template <class R, class C, class... As>
struct MethodSignature<R (C::*)(As...) const> : SignatureOf<R, C, As...> {
  using Args = std::tuple<As...>;
};
template <class R, class C, class... As>
struct MethodSignature<R (C::*)(As...) noexcept> : SignatureOf<R, C, As...> {
  using Args = std::tuple<As...>;
};
template <class R, class C, class... As>
struct MethodSignature<R (C::*)(As...) const noexcept> : SignatureOf<R, C, As...> {
  using Args = std::tuple<As...>;
};

template <class S, bool Streamed>
struct ItemOf {
  using Type = typename OutputOf<typename S::Return>::Type;
};
template <class S>
struct ItemOf<S, true> {
  using Type = typename IsReplyStream<std::decay_t<std::tuple_element_t<1, typename S::Args>>>::Item;
};

/// The signature of what `ActorTypeBuilder::method` takes: a member function, or a function of the object.
template <class F>
using SignatureOfMember =
    typename std::conditional_t<std::is_member_function_pointer_v<F>, std::type_identity<MethodSignature<F>>,
                                std::type_identity<Signature<F>>>::type;

template <class F>
inline constexpr bool is_const_member = false;
template <class R, class C, class... As>
inline constexpr bool is_const_member<R (C::*)(As...) const> = true;
template <class R, class C, class... As>
inline constexpr bool is_const_member<R (C::*)(As...) const noexcept> = true;

/// `Task` and `StreamTask`; `Method` and `StreamMethod`.
template <class T>
concept DeclaredTask = std::derived_from<T, TaskName>;
template <class T>
concept DeclaredMethod = std::derived_from<T, MethodName>;
/// A method that must run while other methods of its actor run.
template <class T>
concept ConcurrentOnly = DeclaredMethod<T> && requires {
  requires T::concurrent_only;
};

/// Stops the compilation if a function does not match the declaration of its task or method.
template <class D, class S>
constexpr void check_implementation() {
  static_assert(std::is_same_v<typename S::In, typename D::Input>,
                "the function takes another message than its name says");
  static_assert(S::streamed || !D::streamed, "its name says that it streams: it takes a ReplyStream<Item>& at the end");
  static_assert(D::streamed || !S::streamed, "the function streams: its name is a StreamTask or a StreamMethod");
  static_assert(std::is_same_v<typename ItemOf<S, S::streamed>::Type, typename D::Output>,
                "the function answers with another message than its name says");
}

// -- answers --------------------------------------------------------------------------------------

/// Makes a payload and checks its size, as for requests and stream items: the same limit within and between processes.
template <class T>
Result<Payload> checked_payload(T value) {
  auto payload = Payload::of(std::move(value));
  GPUACTORS_TRY(payload.check_size());
  return payload;
}

template <class R>
Result<Payload> to_payload(R value) {
  if constexpr (IsResult<R>::value) {
    if (!value)
      return fail(value.error());
    if constexpr (std::is_void_v<typename R::value_type>)
      return Payload::of(google::protobuf::Empty{});
    else
      return checked_payload(std::move(*value));
  } else {
    return checked_payload(std::move(value));
  }
}

template <class R, class Invoke>
Answer answer_of(CallFrame& frame, Invoke&& invoke) {
  if constexpr (std::is_void_v<R>) {
    invoke();
    return Result<Payload>{Payload::of(google::protobuf::Empty{})};
  } else if constexpr (IsFuture<R>::value) {
    R future = invoke();
    if (!future.valid())
      return Result<Payload>{fail(Errc::task_failed, "an empty future was returned: it was moved from, or never made")};
    auto withdraw = [weak = std::weak_ptr{future.state()}] {
      if (const auto state = weak.lock())
        state->cancel(Cancel::ask);
    };
    std::move(future).then(
        [reply = frame.defer(std::move(withdraw))](auto result) { reply(to_payload(std::move(result))); });
    return std::nullopt;
  } else {
    return to_payload(invoke());
  }
}

/// A type-erased function of `Subject&` and the call.
template <class Subject>
using Handler = std::function<Answer(Subject&, CallFrame&)>;

/// Wraps `function(subject, input[, stream])`.
template <class S, class Subject, class F>
Handler<Subject> make_handler(F function) {
  return [function = std::move(function)](Subject& subject, CallFrame& frame) -> Answer {
    auto input = frame.input().share_as<typename S::In>();
    if (!input)
      return Result<Payload>{fail(input.error())};
    if constexpr (S::streamed) {
      if (!frame.stream())
        return Result<Payload>{fail(Errc::invalid_argument, "the reply is a stream: use stream(), not call()")};
      using Item = typename ItemOf<S, true>::Type;
      ReplyStream<Item> stream{frame};
      return answer_of<typename S::Return>(frame, [&] { return function(subject, **input, stream); });
    } else {
      return answer_of<typename S::Return>(frame, [&] { return function(subject, **input); });
    }
  };
}

} // namespace gpuactors::detail
