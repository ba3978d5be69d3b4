// The broker's messages, between CAF and the core.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/broker/core/requests.hpp>
#include <gpuactors/broker/core/rooms.hpp>
#include <gpuactors/broker/resource_broker.hpp>
#include <gpuactors/wire/actor_contact.hpp>
#include <gpuactors/wire/errors.hpp>

#include <fmt/format.h>

#include <ctime>
#include <type_traits>
#include <utility>

namespace gpuactors {

namespace {

using Handle = caf::strong_actor_ptr;

/// An answer that fulfills `promise`: a message, for grants and actors also the handles of holder and worker.
/// Who waits for it has `place`.
template <class T, class Promise>
BrokerAnswer<T> answer_by(Promise promise, Rooms::Place place) {
  return BrokerAnswer<T>{[promise = std::move(promise), place = std::move(place)](Result<T> result) mutable {
    if (!result)
      promise.deliver(to_caf(result.error()));
    else if constexpr (std::is_void_v<T>)
      promise.deliver(v1::Done{});
    else if constexpr (std::is_same_v<T, Grant>)
      promise.deliver(std::move(result->granted), handle_of(result->contacts.holder),
                      handle_of(result->contacts.worker));
    else if constexpr (std::is_same_v<T, FoundActor>)
      promise.deliver(std::move(result->info), handle_of(result->contacts.holder), handle_of(result->contacts.worker));
    else
      promise.deliver(std::move(*result));
  }};
}

/// The kinds of answers: what the core delivers, and the message with which the promise is fulfilled.
template <class T, class... Outs>
struct By {};

constexpr By<void, v1::Done> by_done;
constexpr By<Grant, v1::Granted, Handle, Handle> by_grant;
constexpr By<FoundActor, v1::ActorInfo, Handle, Handle> by_actor;
constexpr By<v1::GroupInfo, v1::GroupInfo> by_group;
constexpr By<v1::TypeCatalog, v1::TypeCatalog> by_types;

Error not_theirs(std::uint64_t client) {
  return Error{Errc::permission_denied, fmt::format("client {} belongs to somebody with another certificate", client)};
}

caf::result<v1::Done> answer_of(const Result<void>& result) {
  if (!result)
    return to_caf(result.error());
  return v1::Done{};
}

} // namespace

// -- the core's world -----------------------------------------------------------------------------

class ResourceBroker::World : public BrokerWorld {
public:
  explicit World(ResourceBroker& self) : self_(self) {
    // nop
  }

  TimePoint now() const override {
    return Clock::now();
  }

  Duration machine_time() const override {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
  }

  std::int64_t unix_ns() const override {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
  }

  void post(const ContactPtr& agent, v1::StartRunner order) override {
    caf_version::post(handle_of(agent), std::move(order));
  }

  void post(const ContactPtr& agent, v1::StartActor order, Payload config) override {
    caf_version::post(handle_of(agent), std::move(order), std::move(config));
  }

  void post(const ContactPtr& agent, v1::EndLease order) override {
    caf_version::post(handle_of(agent), std::move(order));
  }

  void post(const ContactPtr& client, v1::ReclaimLease order) override {
    caf_version::post(handle_of(client), std::move(order));
  }

  void wake(Duration after, Wake what) override {
    v1::Tick tick;
    tick.set_what(static_cast<std::uint32_t>(what));
    if (after <= Duration::zero())
      caf_version::post(caf::actor_cast<Handle>(&self_), std::move(tick));
    else
      caf_version::post_later(&self_, after, std::move(tick));
  }

  void watch(const ContactPtr& contact, std::uint64_t peer) override {
    handle_of(contact)->get()->attach_functor([self = caf::actor_cast<caf::actor_addr>(&self_), peer] {
      v1::PeerDown message;
      message.set_peer(peer);
      caf_version::post(caf::actor_cast<Handle>(self), std::move(message));
    });
  }

private:
  ResourceBroker& self_;
};

// -- the actor ------------------------------------------------------------------------------------

ResourceBroker::ResourceBroker(caf::actor_config& config, BrokerOptions options, std::shared_ptr<const Lanes> lanes)
  : Guarded(config, std::move(lanes)), world_(std::make_unique<World>(*this)),
    core_(std::make_unique<BrokerCore>(*world_, std::move(options))) {
  // nop
}

ResourceBroker::~ResourceBroker() = default;

void ResourceBroker::on_exit() {
  core_->finish();
  core_.reset();
}

BrokerHandle::behavior_type ResourceBroker::make_behavior() {
  core_->start();
  auto& core = *core_;
  // Who waits for the answers to requests.
  const auto waiting = std::make_shared<Rooms>("requests that wait for answers", limits::waiting_per_name,
                                               limits::waiting_bytes_per_name);
  // Runs a request of the core for the sender of the current message, with an answer that fulfills a new response
  // promise. The caller comes first: CAF moves the sender into the promise.
  const auto answer = [this, waiting]<class T, class... Outs>(By<T, Outs...>, const auto& message, auto&& run,
                                                              const Payload& config = {}) {
    const auto from = caller();
    auto promise = make_response_promise<Outs...>();
    const auto size = size_of(message, config, from);
    auto place = size ? waiting->enter(from, *size) : Result<Rooms::Place>{fail(size.error())};
    if (place)
      run(from, answer_by<T>(promise, std::move(*place)));
    else
      promise.deliver(to_caf(place.error()));
    return promise;
  };
  // The same for a client's request, unless the sender speaks for another client.
  const auto answer_client = [&core, answer](auto by, const auto& message, auto&& run, const Payload& config = {}) {
    return answer(
        by, message,
        [&](const Caller& from, auto to) {
          if (core.speaks_for(message.client(), from))
            return run(from, std::move(to));
          to.deliver(fail(not_theirs(message.client())));
        },
        config);
  };
  return {
      [&core, answer](const v1::RegisterNode& message, const Handle& agent) {
        return answer(by_done, message,
                      [&](const Caller&, auto to) { core.add_node(message, contact_of(agent), std::move(to)); });
      },
      [this, &core](const v1::Hello& message, const Handle& port) {
        const auto from = caller();
        if (const auto size = size_of(message, {}, from); !size)
          return answer_of(fail(size.error()));
        if (!core.speaks_for(message.client(), from))
          return answer_of(fail(not_theirs(message.client())));
        // What is posted to it has the broker's rights.
        if (port != nullptr && current_sender() != nullptr && port->node() != current_sender()->node())
          return answer_of(fail(Errc::invalid_argument, "a client says hello with a port of its own process"));
        return answer_of(core.hello(message, from, contact_of(port)));
      },
      [&core, answer_client](const v1::AcquireLease& message) {
        return answer_client(by_grant, message,
                             [&](const Caller& from, auto to) { core.acquire(message, from, std::move(to)); });
      },
      // Also where there is room for no more requests: this makes some.
      [this, &core](const v1::CancelAcquire& message) {
        if (core.speaks_for(message.client(), caller()))
          core.cancel(message);
        return answer_of({});
      },
      [this, &core](const v1::ReleaseLease& message) { core.release(message, caller()); },
      [&core, answer_client](const v1::SpawnActor& message, const Payload& config) {
        return answer_client(
            by_actor, message,
            [&](const Caller& from, auto to) { core.spawn_actor(message, from, config, std::move(to)); }, config);
      },
      [&core, answer](const v1::FindActor& message) {
        return answer(by_actor, message, [&](const Caller& from, auto to) {
          if (message.until_ended() && !core.speaks_for(message.client(), from))
            return to.deliver(fail(not_theirs(message.client())));
          core.find(message, std::move(to));
        });
      },
      [&core, answer](const v1::KillActor& message) {
        return answer(by_done, message, [&](const Caller& from, auto to) {
          if (message.client() != 0 && !core.speaks_for(message.client(), from))
            return to.deliver(fail(not_theirs(message.client())));
          core.kill(message, from, std::move(to));
        });
      },
      [this, &core](const v1::GetState& message) {
        auto state = core.state(message);
        // Who knows a client's number can speak for it after a restart of the broker.
        if (!caller().administers)
          for (auto& client : *state.mutable_clients())
            client.clear_id();
        return state;
      },
      [&core](const v1::LeaseStarted& message, Handle holder, Handle worker) {
        core.lease_started(message, {contact_of(std::move(holder)), contact_of(std::move(worker))});
      },
      [&core](const v1::LeaseEnded& message) { core.lease_ended(message); },
      [&core](const v1::LeaseStuck& message) { core.stuck(message); },
      [&core, answer_client](const v1::SubmitGroup& message) {
        return answer_client(by_group, message,
                             [&](const Caller& from, auto to) { core.submit_group(message, from, std::move(to)); });
      },
      [&core, answer](const v1::ReleaseGroup& message) {
        return answer(by_done, message,
                      [&](const Caller& from, auto to) { core.release_group(message, from, std::move(to)); });
      },
      [&core, answer](const v1::DrainNode& message) {
        return answer(by_done, message,
                      [&](const Caller&, auto to) { core.answer_when_kept(std::move(to), core.drain(message)); });
      },
      [&core](const v1::PeerDown& message) { core.peer_down(message.peer()); },
      [&core](const v1::Tick& message) { core.wake(static_cast<Wake>(message.what())); },
      [&core, answer](const v1::GetTypes& message) {
        return answer(by_types, message, [&](const Caller&, auto to) { core.types(message, std::move(to)); });
      },
      [&core](const v1::ActorSaved& message) { core.saved(message); },
      [&core](const v1::HolderUsage& message) { core.used(message); },
      [&core, answer_client](const v1::Withdraw& message) {
        return answer_client(by_done, message, [&](const Caller&, auto to) { core.withdraw(message, std::move(to)); });
      },
      [&core](const v1::HeldAhead& message) { core.held_ahead(message); },
      [&core](const v1::DeviceFault& message) { core.devices_failed(message); },
      [&core](const v1::DeviceUse& message) { core.devices_used(message); },
      [&core](const v1::NodePrograms& message) { core.programs_changed(message); },
      [this, &core](const v1::Goodbye& message) {
        const auto from = caller();
        const bool is_client = message.node().empty() && !message.has_task();
        if (is_client ? core.speaks_for(message.client(), from) : from.administers)
          core.goodbye(message);
        return answer_of({});
      },
      [&core, answer](const v1::SetQuota& message) {
        return answer(by_done, message,
                      [&](const Caller&, auto to) { core.answer_when_kept(std::move(to), core.set_quota(message)); });
      },
      [&core](const v1::FollowState& message) -> caf::result<v1::StateChanges> {
        auto changes = core.follow(message);
        if (!changes)
          return to_caf(changes.error());
        return std::move(*changes);
      },
      [this, &core](const v1::TakenOver& message) {
        if (const auto stays = core.give_way_to(message); !stays)
          quit(to_caf(stays.error()));
      },
  };
}

} // namespace gpuactors
