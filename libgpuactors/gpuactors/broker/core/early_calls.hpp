// EarlyCalls: what clients ask a broker that started again before its nodes are back. Internal to the layer.
#pragma once

#include <gpuactors/base/caller.hpp>
#include <gpuactors/broker/core/world.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpuactors {

/// Calls about what a node may still bring back. They are asked again when one has come, and when all had their time;
/// withdrawals only then.
class EarlyCalls {
public:
  /// A look-up of an actor.
  struct Find {
    v1::FindActor message;
    BrokerAnswer<FoundActor> answer;
    TimePoint until;
  };

  /// A request for an actor of a name that a node may bring back.
  struct Spawn {
    v1::SpawnActor message;
    Caller caller;
    Payload config;
    BrokerAnswer<FoundActor> answer;
  };

  struct Kill {
    v1::KillActor message;
    Caller caller;
    BrokerAnswer<void> answer;
  };

  struct Types {
    v1::GetTypes message;
    BrokerAnswer<v1::TypeCatalog> answer;
  };

  /// Of an actor or a placement group.
  struct Withdrawal {
    v1::Withdraw message;
    BrokerAnswer<void> answer;
  };

  /// Clients ask again and again: when there are many, those who wait no longer are given up.
  void keep(Find call, TimePoint now) {
    if (finds_.size() >= next_look_) {
      give_up_late(now);
      next_look_ = std::max(fewest, 2 * finds_.size());
    }
    finds_.push_back(std::move(call));
  }

  void keep(Spawn call) {
    give_up_spawn(call.message.client(), call.message.client_request()); // one that is repeated
    spawns_.push_back(std::move(call));
  }

  void keep(Kill call) {
    kills_.push_back(std::move(call));
  }

  void keep(Types call) {
    types_.push_back(std::move(call));
  }

  void keep(Withdrawal call) {
    withdrawals_.push_back(std::move(call));
  }

  /// Those who still wait.
  [[nodiscard]] std::vector<Find> take_finds(TimePoint now) {
    give_up_late(now);
    return std::exchange(finds_, {});
  }

  [[nodiscard]] std::vector<Spawn> take_spawns() {
    return std::exchange(spawns_, {});
  }

  [[nodiscard]] std::vector<Kill> take_kills() {
    return std::exchange(kills_, {});
  }

  [[nodiscard]] std::vector<Types> take_types() {
    return std::exchange(types_, {});
  }

  [[nodiscard]] std::vector<Withdrawal> take_withdrawals() {
    return std::exchange(withdrawals_, {});
  }

  /// The client asks again: its connection, on which the answers would have come, is lost.
  void forget_waits_of(std::uint64_t client) {
    std::erase_if(finds_,
                  [client](const Find& call) { return call.message.until_ended() && call.message.client() == client; });
  }

  void drop_client(std::uint64_t client) {
    give_up([client](const Find& call) { return call.message.client() == client; });
    give_up_spawns([client](const v1::SpawnActor& message) { return message.client() == client; });
  }

  /// The client's request of this number, if there is one.
  void give_up_spawn(std::uint64_t client, std::uint64_t request) {
    give_up_spawns([client, request](const v1::SpawnActor& message) {
      return message.client() == client && message.client_request() == request;
    });
  }

  /// Those whose messages are such.
  template <class Predicate>
  void give_up_spawns(Predicate is_such) {
    std::erase_if(spawns_, [&is_such](Spawn& call) {
      const bool over = is_such(std::as_const(call.message));
      if (over)
        call.answer.deliver(fail(Errc::cancelled, "the request was withdrawn"));
      return over;
    });
  }

private:
  static constexpr std::size_t fewest = 64;

  void give_up_late(TimePoint now) {
    give_up([now](const Find& call) { return call.until <= now; });
  }

  template <class Predicate>
  void give_up(Predicate is_over) {
    std::erase_if(finds_, [&is_over](Find& call) {
      const bool over = is_over(call);
      if (over)
        call.answer.deliver(fail(Errc::deadline_exceeded, "nobody waits for the actor any more"));
      return over;
    });
  }

  std::vector<Find> finds_;
  std::size_t next_look_ = fewest;
  std::vector<Spawn> spawns_;
  std::vector<Kill> kills_;
  std::vector<Types> types_;
  std::vector<Withdrawal> withdrawals_;
};

} // namespace gpuactors
