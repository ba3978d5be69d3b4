// Every difference between CAF 0.17.6 (Debian, Ubuntu) and CAF 1.x in one place: the rest of the project uses only what
// both have. CAF_VERSION cannot be compared (1.1.0 writes it as an octal number); its parts can.
#pragma once

#include <gpuactors/base/byte_reader.hpp>

#include <caf/actor_cast.hpp>
#include <caf/actor_companion.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/io/basp/header.hpp>
#include <caf/io/middleman.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/message_id.hpp>
#include <caf/response_promise.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/sec.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#if CAF_MAJOR_VERSION == 0 && CAF_MINOR_VERSION < 18
#define GPUACTORS_CAF_017 1
#include <caf/all.hpp>
#include <caf/logger.hpp>
#include <caf/make_type_erased_tuple_view.hpp>
#else
#define GPUACTORS_CAF_017 0
#include <caf/anon_mail.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/init_global_meta_objects.hpp>
#include <caf/scheduler.hpp>
#endif

#include <google/protobuf/message.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuactors::caf_version {

// -- typed interfaces -----------------------------------------------------------------------------

template <class... Ts>
struct In;

template <class... Ts>
struct Out;

#if GPUACTORS_CAF_017
template <class I, class O>
struct RpcOf;
template <class... Is, class... Os>
struct RpcOf<In<Is...>, Out<Os...>> {
  using Type = typename caf::replies_to<Is...>::template with<Os...>;
};
template <class... Is>
struct RpcOf<In<Is...>, Out<>> {
  using Type = typename caf::replies_to<Is...>::template with<void>;
};
#else
template <class I, class O>
struct RpcOf;
template <class... Is, class... Os>
struct RpcOf<In<Is...>, Out<Os...>> {
  using Type = caf::result<Os...>(Is...);
};
template <class... Is>
struct RpcOf<In<Is...>, Out<>> {
  using Type = caf::result<void>(Is...);
};
#endif

/// One entry of a typed actor interface: `Rpc<In<Request>, Out<Reply>>`.
template <class I, class O>
using Rpc = typename RpcOf<I, O>::Type;

// -- messages -------------------------------------------------------------------------------------

/// CAF's type for the content of a message; used by content.hpp.
#if GPUACTORS_CAF_017
using NativeContent = caf::type_erased_tuple;
#else
using NativeContent = caf::message;
#endif

/// Puts a message into the mailbox of `to`, from any thread. An `id` of zero makes the message asynchronous.
template <class... Ts>
void enqueue(const caf::strong_actor_ptr& to, const caf::strong_actor_ptr& from, std::uint64_t id, Ts&&... xs) {
  const auto mid = caf::make_message_id(id);
#if GPUACTORS_CAF_017
  to->enqueue(caf::make_mailbox_element(from, mid, {}, std::forward<Ts>(xs)...), nullptr);
#else
  to->enqueue(caf::make_mailbox_element(from, mid, std::forward<Ts>(xs)...), nullptr);
#endif
}

/// Answers a request that `self` does not take into its mailbox with an error.
inline void refuse(const caf::mailbox_element& request, const caf::strong_actor_ptr& self, caf::error why) {
  enqueue(request.sender, self, request.mid.response_id().integer_value(), std::move(why));
}

/// Returns the actor that waits for the answer to the message that `self` serves now, and the id of that answer. On the
/// thread of `self`.
inline std::pair<caf::strong_actor_ptr, std::uint64_t> caller_of(caf::local_actor& self) {
  const auto* message = self.current_mailbox_element();
  if (message == nullptr || !message->mid.is_request())
    return {};
  return {message->sender, message->mid.response_id().integer_value()};
}

/// Sends `xs` to `to` without expecting an answer, from any thread.
template <class Handle, class... Ts>
void post(const Handle& to, Ts&&... xs) {
  if (const auto pointer = caf::actor_cast<caf::strong_actor_ptr>(to))
    enqueue(pointer, nullptr, 0, std::forward<Ts>(xs)...);
}

/// Sends `x` to `self` after `wait`.
template <class Self, class T>
void post_later(Self* self, std::chrono::nanoseconds wait, T x) {
  // CAF adds `wait` to its clock, which must not overflow.
  constexpr std::chrono::hours most{24 * 365 * 10};
  wait = std::min<std::chrono::nanoseconds>(wait, most);
#if GPUACTORS_CAF_017
  self->delayed_send(self, wait, std::move(x));
#else
  self->mail(std::move(x)).delay(std::chrono::duration_cast<caf::timespan>(wait)).send(self);
#endif
}

/// Returns the actor and the message id to which the answer for `promise` goes, if it goes directly to the requester.
/// Otherwise the handle is null, and `promise` must deliver the answer.
inline std::pair<caf::strong_actor_ptr, std::uint64_t> answer_to(const caf::response_promise& promise) {
#if GPUACTORS_CAF_017
  if (promise.pending() && promise.stages().empty() && !promise.async())
    return {promise.source(), promise.id().response_id().integer_value()};
#else
  static_cast<void>(promise);
#endif
  return {};
}

/// Sends a request from `self` to `to`, without a time limit: meant for actors of one process. Handle the answer with
/// `.then(...)`.
template <class Self, class Handle, class... Ts>
auto ask(Self* self, const Handle& to, Ts&&... xs) {
#if GPUACTORS_CAF_017
  return self->request(to, caf::infinite, std::forward<Ts>(xs)...);
#else
  return self->mail(std::forward<Ts>(xs)...).request(to, caf::infinite);
#endif
}

// -- configuration --------------------------------------------------------------------------------

/// Registers the message types of `Block` (a `caf::id_block`) with the process. Call it before any configuration object
/// exists.
template <class Block>
void init_types() {
#if !GPUACTORS_CAF_017
  caf::init_global_meta_objects<Block>();
  caf::core::init_global_meta_objects();
  caf::io::middleman::init_global_meta_objects();
#endif
}

/// Registers the message types of `Block` with one configuration.
template <class Block>
void add_types([[maybe_unused]] caf::actor_system_config& config) {
#if GPUACTORS_CAF_017
  config.add_message_types<Block>();
#endif
}

/// Sets the scheduler: few threads that share one queue, because control actors run briefly and user code has its own
/// threads. On two cores, policy "sharing" answered a request six times faster than work stealing.
inline void set_scheduler(caf::actor_system_config& config, std::size_t threads) {
#if GPUACTORS_CAF_017
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", threads);
#else
  config.set("caf.scheduler.policy", "sharing");
  config.set("caf.scheduler.max-threads", threads);
#endif
}

/// Sets the heartbeat between processes: CAF 0.17 sends none unless both values are set.
inline void set_heartbeat(caf::actor_system_config& config, std::chrono::nanoseconds interval,
                          std::chrono::nanoseconds timeout) {
#if GPUACTORS_CAF_017
  config.set("middleman.heartbeat-interval", caf::timespan{interval});
  config.set("middleman.connection-timeout", caf::timespan{timeout});
  config.set("middleman.enable-automatic-connections", false);
  config.set("middleman.workers", std::size_t{0});
#else
  config.set("caf.middleman.heartbeat-interval", caf::timespan{interval});
  config.set("caf.middleman.connection-timeout", caf::timespan{timeout});
  config.set("caf.middleman.enable-automatic-connections", false);
  config.set("caf.middleman.workers", std::size_t{0});
#endif
}

/// CAF's module for connections, for `load<Middleman<Multiplexer>>()`, which gives each process an identity that no
/// other process ever has. CAF 0.17 makes the identity from addresses and PID, which containers share: those in one
/// machine's network, each as process 1; those of two machines whose bridges number alike; and a container and its
/// predecessor.
#if GPUACTORS_CAF_017
template <class Multiplexer>
class Middleman : public caf::io::middleman {
public:
  explicit Middleman(caf::actor_system& system) : caf::io::middleman(system), system_(system), multiplexer_(&system) {
    // nop
  }

  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>) {
    return new Middleman(system);
  }

  /// CAF calls this before there is any actor.
  void init(caf::actor_system_config& config) override {
    caf::io::middleman::init(config);
    caf::node_id::default_data::host_id_type host;
    std::random_device random;
    std::generate(host.begin(), host.end(), [&random] { return static_cast<std::uint8_t>(random()); });
    const auto pid = static_cast<std::uint32_t>(::getpid());
    // CAF's own module sets the identity at this moment, as a friend; the system itself is not const.
    const_cast<caf::node_id&>(system_.node()) = caf::make_node_id(pid, host); // NOLINT(*-const-cast)
  }

  caf::io::network::multiplexer& backend() override {
    return multiplexer_;
  }

private:
  caf::actor_system& system_;
  Multiplexer multiplexer_;
};
#else
template <class>
using Middleman = caf::io::middleman;
#endif

/// The type of a connection's buffers.
#if GPUACTORS_CAF_017
using LinkBuffer = std::vector<char>;
#else
using LinkBuffer = caf::byte_buffer;
#endif

/// Returns the middleman's actor, of type `Broker`, that speaks CAF's protocol with other processes.
template <class Broker>
caf::actor protocol_broker(caf::actor_system& system) {
#if GPUACTORS_CAF_017
  return system.middleman().template named_broker<Broker>(caf::atom("BASP"));
#else
  return system.middleman().get_named_broker("BASP");
#endif
}

// -- serialization --------------------------------------------------------------------------------

#if GPUACTORS_CAF_017
template <class Inspector>
using InspectResult = typename Inspector::result_type;
#else
template <class Inspector>
using InspectResult = bool;
#endif

/// Serializes or deserializes `x` through plain values. `Fields` has a tuple `values`; `save(x)`, which fills the tuple
/// or returns false; and `load(x)`, which makes `x` from the tuple.
template <class Fields, class Inspector, class T>
InspectResult<Inspector> inspect_as(Inspector& f, [[maybe_unused]] const char* name, T& x) {
  Fields fields;
#if GPUACTORS_CAF_017
  if constexpr (Inspector::reads_state) {
    [[maybe_unused]] const bool saved = fields.save(x);
    if constexpr (std::is_same_v<InspectResult<Inspector>, caf::error>)
      if (!saved)
        return caf::sec::invalid_argument;
  }
  auto load = [&]() -> caf::error {
    fields.load(x);
    return caf::none;
  };
  return std::apply(
      [&](auto&... values) { return f(caf::meta::type_name(name), values..., caf::meta::load_callback(load)); },
      fields.values);
#else
  if constexpr (!Inspector::is_loading) {
    if (!fields.save(x)) {
      f.set_error(caf::make_error(caf::sec::invalid_argument, "the message cannot be serialized"));
      return false;
    }
  }
  const bool done =
      std::apply([&](auto&... values) { return f.object(x).fields(f.field("value", values)...); }, fields.values);
  if constexpr (Inspector::is_loading)
    if (done)
      fields.load(x);
  return done;
#endif
}

#if GPUACTORS_CAF_017
using Bytes = caf::binary_serializer::container_type;
#else
using Bytes = caf::byte_buffer;
#endif

/// Appends `x` to `bytes` in wire format; returns false if `x` cannot be serialized.
template <class T>
bool encode(caf::actor_system& system, const T& x, Bytes& bytes) {
  caf::binary_serializer sink{system, bytes};
#if GPUACTORS_CAF_017
  return !sink(x);
#else
  return sink.apply(x);
#endif
}

/// Reads what `encode` wrote; returns false if the bytes are not a `T`.
template <class T>
bool decode(caf::actor_system& system, const Bytes& bytes, T& x) {
  caf::binary_deserializer source{system, bytes};
#if GPUACTORS_CAF_017
  return !source(x);
#else
  return source.apply(x);
#endif
}

/// The result of writing a message; `unwritable` means that it cannot be serialized.
enum class Written { done, unwritable, not_here };

/// Returns whether messages can be sent to an actor of another process. Once its process was lost they cannot, even if
/// a process that is taken for the same one is now connected.
inline bool is_reachable(const caf::strong_actor_ptr& actor) {
  return !actor->get()->getf(caf::abstract_actor::is_terminated_flag);
}

/// Replaces `bytes` with `xs` in CAF's protocol, as sent from an actor of this process to one at the other end of a
/// connection. `id` tells whether the message is a request, an answer or asynchronous. With CAF 1.x returns `not_here`,
/// because CAF itself writes directly there.
template <class... Ts>
Written write_message([[maybe_unused]] caf::actor_system& system, [[maybe_unused]] LinkBuffer& bytes,
                      [[maybe_unused]] const caf::strong_actor_ptr& to,
                      [[maybe_unused]] const caf::strong_actor_ptr& from, [[maybe_unused]] std::uint64_t id,
                      [[maybe_unused]] const Ts&... xs) {
#if GPUACTORS_CAF_017
  namespace basp = caf::io::basp;
  // The registry is where CAF finds the sender when the answer arrives. To look is cheaper than to put it there again:
  // no thread waits for another one, and nothing is allocated.
  if (system.registry().get(from->id()) == nullptr)
    system.registry().put(from->id(), from);
  bytes.clear();
  caf::binary_serializer sink{system, bytes};
  sink.skip(basp::header_size);
  const std::vector<caf::strong_actor_ptr> no_stages;
  // The view is only read, so casting const away is safe.
  const auto content = caf::make_type_erased_tuple_view(const_cast<Ts&>(xs)...); // NOLINT(*-const-cast)
  if (sink(no_stages) || caf::message::save(sink, content))
    return Written::unwritable;
  basp::header header{basp::message_type::direct_message,
                      0,
                      static_cast<std::uint32_t>(bytes.size() - basp::header_size),
                      id,
                      from->id(),
                      to->id()};
  sink.seek(0);
  return sink(header) ? Written::unwritable : Written::done;
#else
  return Written::not_here;
#endif
}

/// Returns the process that the payload of one of CAF's messages names as its sender and, if `is_for_one`, the one that
/// it names as its receiver.
inline std::pair<caf::node_id, caf::node_id> ends_of(caf::actor_system& system, bool is_for_one, const void* payload,
                                                     std::size_t size) {
  const auto* begin = static_cast<const Bytes::value_type*>(payload);
  const Bytes bytes(begin, begin + size);
  caf::binary_deserializer source{system, bytes};
  std::pair<caf::node_id, caf::node_id> ends;
  const auto read = [&](caf::node_id& node) {
#if GPUACTORS_CAF_017
    return !source(node);
#else
    return source.apply(node);
#endif
  };
  if (!read(ends.first) || (is_for_one && !read(ends.second)))
    return {};
  return ends;
}

/// Returns the values of a message for an actor as they were written, if it goes through no other actors and `accepts`
/// returns true for the name of each of its types, as CAF calls them. Does not read the values.
template <class F>
std::optional<std::string_view> values_of(const void* payload, std::size_t size, F&& accepts) {
  ByteReader bytes{{static_cast<const char*>(payload), size}};
#if GPUACTORS_CAF_017
  // The list of actors that it goes through must be empty; then 0, and all names in one text.
  constexpr std::string_view begin = "@<>";
  if (bytes.take_size() != 0 || bytes.take_number(2) != 0)
    return std::nullopt;
  auto names = bytes.take_text(bytes.take_size());
  if (!names.starts_with(begin))
    return std::nullopt;
  names.remove_prefix(begin.size());
  while (!names.empty()) {
    names.remove_prefix(1); // the "+" before it
    const auto name = names.substr(0, names.find('+'));
    if (!accepts(name))
      return std::nullopt;
    names.remove_prefix(name.size());
  }
#else
  for (auto left = bytes.take_size(); left > 0; --left)
    if (!accepts(caf::query_type_name(static_cast<caf::type_id_t>(bytes.take_number(2)))))
      return std::nullopt;
  if (bytes.is_short())
    return std::nullopt;
#endif
  return bytes.rest();
}

/// Bytes of an atom, as it is written.
inline constexpr std::size_t atom_bytes = GPUACTORS_CAF_017 != 0 ? 8 : 0;

// -- threads --------------------------------------------------------------------------------------

/// Runs an actor whenever it has messages. A runner must outlive its actor.
#if GPUACTORS_CAF_017
class Runner : public caf::execution_unit {
public:
  explicit Runner(caf::actor_system& system) : caf::execution_unit(&system), others_(&system) {
    // nop
  }

  /// Schedules `actor`. Called on any thread, and not again before `actor` was run.
  virtual void run_soon(caf::resumable* actor) = 0;

protected:
  /// Runs `actor` until it has no more messages; returns false if it has ended. The system's scheduler runs the actors
  /// that it sends to.
  bool run(caf::resumable* actor) {
    auto result = caf::resumable::resume_later;
    while (result == caf::resumable::resume_later)
      result = actor->resume(&others_, std::numeric_limits<std::size_t>::max());
    intrusive_ptr_release(actor);
    return result == caf::resumable::awaiting_message;
  }

private:
  void exec_later(caf::resumable* actor) final {
    run_soon(actor);
  }

  // A member, because the actor keeps a pointer to it.
  caf::scoped_execution_unit others_;
};
using RunnerBase = caf::execution_unit;
using EnqueueResult = void;
#else
class Runner : public caf::scheduler {
public:
  explicit Runner(caf::actor_system& system) : system_(system) {
    // nop
  }

  virtual void run_soon(caf::resumable* actor) = 0;

protected:
  bool run(caf::resumable* actor) {
    auto result = caf::resumable::resume_later;
    while (result == caf::resumable::resume_later)
      result = actor->resume(&system_.scheduler(), std::numeric_limits<std::size_t>::max());
    intrusive_ptr_release(actor);
    return result == caf::resumable::awaiting_message;
  }

private:
  void schedule(caf::resumable* actor) final {
    run_soon(actor);
  }
  void delay(caf::resumable* actor) final {
    run_soon(actor);
  }
  // A runner has nothing to start or stop.
  void start() final {
    // nop
  }
  void stop() final {
    // nop
  }

  caf::actor_system& system_;
};
using RunnerBase = caf::scheduler;
using EnqueueResult = bool;
#endif

/// Releases what this thread holds of the actor system that it has made or spawned in. With 0.17, that is the system's
/// logger, and the end of a system waits until no thread holds it: a thread that lives on would keep another one from
/// ending the system.
inline void forget_system() {
#if GPUACTORS_CAF_017
  caf::logger::set_current_actor_system(nullptr);
#endif
}

/// Calls `handler(caf::exit_msg&)` instead of CAF's own. In 1.x that may be a handler of the behavior too, which 0.17
/// never calls.
template <class Handler>
void set_exit_handler(caf::event_based_actor* self, Handler handler) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  self->set_exit_handler(std::move(handler));
#pragma GCC diagnostic pop
}

/// An actor that is always run by its own runner, no matter which thread sends to it.
class RunActor : public caf::event_based_actor {
public:
  RunActor(caf::actor_config& config, std::shared_ptr<Runner> runner)
    : caf::event_based_actor(config), runner_(std::move(runner)) {
    // nop
  }

  using caf::event_based_actor::enqueue;

  EnqueueResult enqueue(caf::mailbox_element_ptr element, RunnerBase* /*of the sender*/) override {
    return caf::event_based_actor::enqueue(std::move(element), runner_.get());
  }

  void launch(RunnerBase* /*of the parent*/, bool lazy, bool hide) final {
    caf::event_based_actor::launch(runner_.get(), lazy, hide);
  }

private:
  std::shared_ptr<Runner> runner_;
};

/// Renders any CAF error.
inline std::string render(const caf::error& error) {
  return to_string(error);
}

} // namespace gpuactors::caf_version

namespace gpuactors::v1 { // found by argument-dependent lookup: the namespace of the control messages

template <class T>
inline constexpr bool is_protobuf = std::is_base_of_v<google::protobuf::Message, std::decay_t<T>>;

#if GPUACTORS_CAF_017
template <class Inspector, class T, class = std::enable_if_t<is_protobuf<T>>>
typename Inspector::result_type inspect(Inspector& f, T& x) {
  std::string bytes;
  if constexpr (Inspector::reads_state) {
    [[maybe_unused]] const bool done = x.SerializeToString(&bytes);
    if constexpr (std::is_same_v<typename Inspector::result_type, caf::error>)
      if (!done)
        return caf::sec::invalid_argument;
  }
  auto load = [&]() -> caf::error {
    if (!x.ParseFromString(bytes))
      return caf::sec::invalid_argument;
    return caf::none;
  };
  return f(caf::meta::omittable(), bytes, caf::meta::load_callback(load));
}
#else
template <class Inspector, class T, class = std::enable_if_t<is_protobuf<T>>>
bool inspect(Inspector& f, T& x) {
  auto get = [&x] { return x.SerializeAsString(); };
  auto set = [&x](const std::string& bytes) { return x.ParseFromString(bytes); };
  return f.object(x).fields(f.field("bytes", get, set));
}
#endif

} // namespace gpuactors::v1
