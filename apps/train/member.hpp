// An actor that trains together with others of its kind: each has the whole network and a part of every batch, and the
// gradients of all are summed up by NCCL, or around a ring of messages.
//
//   method    in             out
//   join      Places         Status       makes it part of a group, at the beginning of the epoch under way
//   epoch     EpochRequest   Progress     learns one epoch; answered when it is over, while other messages are served
//   pass      Piece          Empty        from the member before it in the ring
//   wake      EpochRequest   Empty        from itself, when the sum may go on
//   resume    EpochRequest   Empty        from itself, when it made steps for long enough to look what else there is
//   leave     Empty          Empty        gives the epoch under way up
//   nccl_id   Empty          NcclId       a name for a group that sums by NCCL
//   evaluate, save, status                as those of a trainer
//
// A member waits for nobody: what comes is worked on when it comes, so that a neighbour's death can be told to it.
#pragma once

#include "gradient_sum.hpp"
#include "plan.hpp"
#include "progress_metrics.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace train {

class MemberActor : public gpuactors::Actor {
public:
  /// Throws what `make_training` or a checkpoint reports.
  MemberActor(gpuactors::Init init, const Plan& plan);
  MemberActor(const MemberActor&) = delete;
  MemberActor& operator=(const MemberActor&) = delete;
  ~MemberActor() override;

  gpuactors::Result<Status> join(const Places& places);
  gpuactors::Future<Progress> epoch(const EpochRequest& request);
  gpuactors::Result<void> pass(const Piece& piece);
  gpuactors::Result<void> wake(const EpochRequest& request);
  gpuactors::Result<void> resume(const EpochRequest& request);
  gpuactors::Result<void> leave(const google::protobuf::Empty& request);
  gpuactors::Result<NcclId> nccl_id(const google::protobuf::Empty& request);
  gpuactors::Result<Evaluation> evaluate(const google::protobuf::Empty& request);
  gpuactors::Result<Status> save_to(const Path& path);
  gpuactors::Result<Status> status(const google::protobuf::Empty& request);

private:
  using EpochPromise = gpuactors::Promise<Progress>;

  gpuactors::Result<void> make_sum(const Places& places);
  /// Does what can be done: steps until one waits for others, the epoch is over or its turn is.
  gpuactors::Result<void> go_on();
  /// Goes on behind the messages that have come.
  void take_turns();
  /// The same, and a failure is the end of the epoch.
  gpuactors::Result<void> go_on_or_give_up();
  void send(Piece piece);
  /// What takes the answer to a message without which the epoch under way cannot go on.
  [[nodiscard]] std::function<void(const gpuactors::Result<google::protobuf::Empty>&)> fails_epoch() const;
  gpuactors::Result<void> finish_epoch();
  void give_up(const gpuactors::Error& error);

  Plan plan_;
  TrainingRun training_;
  ProgressMetrics metrics_{metrics()};
  std::uint64_t generation_ = 0;
  std::unique_ptr<GradientSum> sum_;
  gpuactors::ActorRef self_;
  /// A message to itself is under way.
  bool resumes_ = false;
  /// In the ring.
  gpuactors::ActorRef next_;
  /// The epoch under way; shared with the answers to pieces, which may fail it.
  std::shared_ptr<EpochPromise> promise_;
  /// The gradients of a step were found, and are not followed yet.
  bool open_ = false;
  /// Pieces from a member that joined sooner.
  std::vector<Piece> early_;
};

} // namespace train
