// Team: actors that work together, and go on together when one of them is lost with its process, device or node. For
// trainings that run for hours on several devices.
//
//   // The class is made `WithPeers`; its method streams reports, each with all that is needed to go on from there:
//   Result<void> Worker::train(const Lesson& lesson, ReplyStream<Report>& reports) {
//     ... begin anew, or with the checkpoint that the lesson names ...
//     for (...) {
//       GPUACTORS_TRY(peers().all_reduce(gpu().stream(), gradients)); // fails when another one is lost
//       ... every so often, write a checkpoint ...
//       GPUACTORS_TRY(reports.write(report));
//     }
//     return {};
//   }
//
//   // The program:
//   gpuactors::Team team{cluster, worker, {{config, {.gpus = 1}}, {config, {.gpus = 1}}}, {.max_failures = 3}};
//   GPUACTORS_LET(reports, team.run(train, [&](const gpuactors::TeamPart<Report>& part) {
//                   auto lesson = first_lesson;
//                   if (!part.reports.empty())
//                     lesson.set_checkpoint(part.reports[part.rank].checkpoint());
//                   return lesson;
//                 }));
//
// What it does in a failure is that of Ray Train's worker groups with `FailureConfig(max_failures)`; but those that
// were not lost live on.
#pragma once

#include <gpuactors/actor/interface.hpp>
#include <gpuactors/base/future.hpp>
#include <gpuactors/cluster/cluster.hpp>
#include <gpuactors/collective/team_options.hpp>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpuactors {

/// One member's part in an attempt, which its request is made from.
template <class Report>
struct TeamPart {
  std::size_t rank = 0;
  std::size_t size = 0;
  /// 0 for the first, then the number of failures before it.
  int attempt = 0;
  /// The last reports that all members have made, by rank; empty if there are none.
  std::vector<Report> reports;
};

/// How a team works, beside what it does.
template <class Report>
struct TeamCall {
  /// Of each member's call, in each attempt. When it is over the work ends with `deadline_exceeded`.
  Duration deadline = Duration::max();
  /// Called when all members have made another report, with these, by rank.
  std::function<void(const std::vector<Report>&)> on_reports{};
  /// Called after each failure that is not the end, also after one that does not count.
  std::function<void(const TeamFailure&)> on_failure{};
};

namespace detail {

class TeamState;

/// The same without the types of messages.
using PayloadPart = TeamPart<Payload>;
using PayloadCall = TeamCall<Payload>;

struct PayloadMember {
  Payload config;
  Options options;
};

struct TeamWork {
  std::string method;
  std::function<Result<Payload>(const PayloadPart&)> request;
  PayloadCall call;
};

/// Returns the messages of payloads; an empty one for an empty payload.
template <ProtobufMessage Report>
Result<std::vector<Report>> messages_of(const std::vector<Payload>& payloads) {
  std::vector<Report> messages;
  messages.reserve(payloads.size());
  for (const auto& payload : payloads) {
    if (payload.empty()) {
      messages.emplace_back();
      continue;
    }
    GPUACTORS_LET(message, payload.share_as<Report>());
    messages.push_back(*message);
  }
  return messages;
}

} // namespace detail

/// Actors of one type that work together: their places are reserved together, they are put together by
/// `form_collective`, and a method is called on all of them. When one is lost, the operations of the others fail, all
/// calls are awaited, the lost ones are started anew in their places, all are put together again, and the method is
/// called on all of them again, with what they have reported.
///
/// A member's method is streamed. Its n-th report in an attempt belongs to the n-th of the others. The last reports
/// that all have made outlive every member here, and are given to those who make the requests of the next attempt: so a
/// report says all that is needed to go on from there, for example the name of a checkpoint on a file system that all
/// see. What one member has reported before the others is kept until they have, without a limit.
///
/// Members start with the first `run`, stay for the next one, and end with the team. If one calls no operation of
/// `peers()` for a long time, it learns only then that another one is lost.
///
/// The team's functions are called on the thread of `run`, one at a time; they must not throw, nor use the team but by
/// `stop` and `members`. All members may be called from any thread. A team is moved only while it does not work.
/// `cluster` must outlive it, and is not moved meanwhile.
class Team {
public:
  template <ProtobufMessage Config>
  Team(Cluster& cluster, const ActorKind<Config>& kind, std::type_identity_t<std::vector<TeamMember<Config>>> members,
       TeamOptions options = {})
    : Team(cluster, std::string{kind.name()}, payloads_of(std::move(members)), std::move(options)) {
    // nop
  }

  Team(Team&&) noexcept;
  Team& operator=(Team&&) noexcept;
  /// Stops the work under way and waits for it, then has the members end, without waiting for that. While members are
  /// put together the wait is for that too: twice `answer_within` at most, for one that does not answer.
  ~Team();

  /// Works, and returns when all members have done their part in one attempt: what each has reported last in it, by
  /// rank, an empty message for a member that has reported nothing. Blocks.
  /// @param request makes the request of one member; returns an `In` or a `Result<In>`, whose error ends the work.
  /// @returns the error of a member with its rank and name, once it is not worth another attempt: one of its own, or
  ///          after `max_failures`; `cancelled` after `stop`; `invalid_argument` for options that are the team's own,
  ///          for no members, and while the team works already; the errors of `Cluster::create_group` and `spawn`, also
  ///          `no_capacity` for a replacement that waited for longer than its `queue_timeout`.
  template <ProtobufMessage In, ProtobufMessage Report>
  Result<std::vector<Report>> run(const StreamMethod<In, Report>& method,
                                  std::type_identity_t<std::function<Result<In>(const TeamPart<Report>&)>> request,
                                  std::type_identity_t<TeamCall<Report>> call = {}) {
    GPUACTORS_LET(reports, run(work_of<In, Report>(std::string{method.name()}, std::move(request), std::move(call))));
    return detail::messages_of<Report>(reports);
  }

  /// Works on a thread of its own. Cancelling the future stops the work.
  template <ProtobufMessage In, ProtobufMessage Report>
  Future<std::vector<Report>>
  run_async(const StreamMethod<In, Report>& method,
            std::type_identity_t<std::function<Result<In>(const TeamPart<Report>&)>> request,
            std::type_identity_t<TeamCall<Report>> call = {}) {
    return run_async(work_of<In, Report>(std::string{method.name()}, std::move(request), std::move(call)))
        .transform([](const std::vector<Payload>& reports) { return detail::messages_of<Report>(reports); });
  }

  /// Ends the work under way with `cancelled`: the members are asked to stop, and stay. Does not wait; work that puts
  /// its members together ends only when that has ended, after twice `answer_within` at most. No effect on a team that
  /// does not work.
  void stop();

  /// Returns the members by rank; an empty reference for one that is not started, or is being replaced.
  [[nodiscard]] std::vector<ActorRef> members() const;

private:
  Team(Cluster& cluster, std::string type, std::vector<detail::PayloadMember> members, TeamOptions options);

  Result<std::vector<Payload>> run(const detail::TeamWork& work);
  Future<std::vector<Payload>> run_async(detail::TeamWork work);

  template <ProtobufMessage Config>
  static std::vector<detail::PayloadMember> payloads_of(std::vector<TeamMember<Config>> members) {
    std::vector<detail::PayloadMember> payloads;
    payloads.reserve(members.size());
    for (auto& member : members)
      payloads.push_back({Payload::of(std::move(member.config)), std::move(member.options)});
    return payloads;
  }

  template <ProtobufMessage In, ProtobufMessage Report>
  static detail::TeamWork work_of(std::string method, std::function<Result<In>(const TeamPart<Report>&)> request,
                                  TeamCall<Report> call) {
    detail::TeamWork work{std::move(method), {}, {call.deadline, {}, std::move(call.on_failure)}};
    work.request = [request = std::move(request)](const detail::PayloadPart& part) -> Result<Payload> {
      GPUACTORS_LET(reports, detail::messages_of<Report>(part.reports));
      GPUACTORS_LET(made, request({part.rank, part.size, part.attempt, std::move(reports)}));
      return Payload::of(std::move(made));
    };
    if (call.on_reports)
      work.call.on_reports = [on_reports = std::move(call.on_reports)](const std::vector<Payload>& payloads) {
        if (const auto reports = detail::messages_of<Report>(payloads))
          on_reports(*reports);
      };
    return work;
  }

  std::shared_ptr<detail::TeamState> state_;
};

} // namespace gpuactors
