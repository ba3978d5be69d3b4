#include "mates.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <thread>
#include <utility>

namespace gpuactors::test {

namespace {

class Mate : public WithPeers<Actor> {
public:
  explicit Mate(Init init) : WithPeers(std::move(init)) {
    mate_gates().birth.pass([this] { return stop_requested(); });
  }

  Result<void> exercise(const Vector& request, ReplyStream<Vector>& reports) {
    ++calls_;
    auto value = request.values(2);
    for (auto round = static_cast<int>(request.values(1)) + 1; round <= static_cast<int>(request.values(0)); ++round) {
      if (round == static_cast<int>(request.values(4)))
        GPUACTORS_TRY(fail_by(static_cast<Fault>(static_cast<int>(request.values(3)))));
      std::vector<float> parts{static_cast<float>(peers().rank() + 1) / 7, value};
      GPUACTORS_TRY(peers().all_reduce(parts));
      value = parts[0] + parts[1] / (3 * static_cast<float>(peers().size()));
      Vector report;
      for (const auto number :
           {static_cast<float>(round), value, static_cast<float>(calls_), static_cast<float>(::getpid())})
        report.add_values(number);
      if (round == static_cast<int>(request.values(4)) && request.values(3) == static_cast<float>(Fault::late))
        mate_gates().report.pass([this] { return stop_requested(); });
      GPUACTORS_TRY(reports.write(report));
    }
    return {};
  }

  [[nodiscard]] Future<v1::CollectiveAnswer> join_when_open(const v1::CollectiveCall& call) const {
    if (call.has_join())
      mate_gates().join.pass();
    return collective_call(call);
  }

  void hold(const google::protobuf::Empty&) const {
    held() = true;
    while (held())
      std::this_thread::yield();
  }

private:
  Result<void> fail_by(Fault fault) const {
    switch (fault) {
    case Fault::none:
    case Fault::late:
      return {};
    case Fault::hang:
      while (!stop_requested())
        std::this_thread::yield();
      return gpuactors::fail(Errc::cancelled, "asked to stop");
    case Fault::fail_behind_late:
      mate_gates().report.await(1);
      [[fallthrough]];
    case Fault::fail:
      return gpuactors::fail(Errc::task_failed, "a bad number");
    case Fault::out_of_memory:
      return gpuactors::fail(Errc::out_of_memory, "no room");
    }
    return {};
  }

  int calls_ = 0;
};

GPUACTORS_ACTOR(mate, Mate)
    .method(exercise, &Mate::exercise)
    .concurrent_method(hold, &Mate::hold)
    .concurrent_method(collective_method, &Mate::join_when_open);

} // namespace

MateGates& mate_gates() {
  static MateGates gates;
  return gates;
}

std::atomic<bool>& held() {
  static std::atomic<bool> value{false};
  return value;
}

Vector to_message(const Exercise& exercise) {
  Vector message;
  for (const auto number : {static_cast<float>(exercise.rounds), static_cast<float>(exercise.from), exercise.value,
                            static_cast<float>(exercise.fault), static_cast<float>(exercise.at)})
    message.add_values(number);
  return message;
}

Standing standing_of(const Vector& report) {
  if (report.values_size() == 0)
    return {};
  return {static_cast<int>(report.values(0)), report.values(1), static_cast<int>(report.values(2)),
          static_cast<int>(report.values(3))};
}

std::vector<Standing> standings_of(const std::vector<Vector>& reports) {
  std::vector<Standing> standings;
  for (const auto& report : reports)
    standings.push_back(standing_of(report));
  return standings;
}

Vector go_on(Exercise exercise, const TeamPart<Vector>& part) {
  if (!part.reports.empty()) {
    const auto standing = standing_of(part.reports[part.rank]);
    exercise.from = standing.round;
    exercise.value = standing.value;
  }
  return to_message(exercise);
}

std::vector<TeamMember<>> mates(std::size_t count, const Options& options) {
  std::vector<TeamMember<>> members;
  for (std::size_t rank = 0; rank < count; ++rank)
    members.push_back({{}, options});
  return members;
}

} // namespace gpuactors::test
