// An actor that trains a network and keeps all of it on its device: parameters, optimizer, data.
//
//   method    in          out
//   run       RunRequest  a stream of Progress    until so many epochs are over; end the stream to stop it
//   step      Rows        Loss                    one step on other rows
//   evaluate  Empty       Evaluation              on the rows that are for the test
//   save      Path        Status                  an empty path means the plan's checkpoint
//   load      Path        Status
//   status    Empty       Status                  also while another method runs
//   stop      Empty       Status                  writes the plan's checkpoint, if it has one, for who ends it now
//
// Started anew after its worker died, on whatever node, it goes on from its last checkpoint.
#pragma once

#include "plan.hpp"
#include "progress_metrics.hpp"

#include <mutex>

namespace train {

class TrainerActor : public gpuactors::Actor {
public:
  /// Throws what `make_training` or a checkpoint reports.
  TrainerActor(gpuactors::Init init, const Plan& plan);
  TrainerActor(const TrainerActor&) = delete;
  TrainerActor& operator=(const TrainerActor&) = delete;
  ~TrainerActor() override;

  gpuactors::Result<void> run(const RunRequest& request, gpuactors::ReplyStream<Progress>& events);
  gpuactors::Result<Loss> step(const Rows& rows);
  gpuactors::Result<Evaluation> evaluate(const google::protobuf::Empty& request);
  gpuactors::Result<Status> save_to(const Path& path);
  gpuactors::Result<Status> load_from(const Path& path);
  [[nodiscard]] Status status(const google::protobuf::Empty& request) const;
  gpuactors::Result<Status> stop(const google::protobuf::Empty& request);

private:
  /// Goes back to what an earlier life has written, or what the plan says to begin with.
  gpuactors::Result<void> find_beginning();
  gpuactors::Result<void> write_checkpoint();
  /// Writes the checkpoint. @returns that it was stopped, and where.
  gpuactors::Result<void> stop_here();
  /// Keeps for `status` how far it is. @returns the same.
  Status note_status();

  Plan plan_;
  TrainingRun training_;
  ProgressMetrics metrics_{metrics()};
  bool noted_ = false;
  mutable std::mutex mutex_;
  /// Guarded by the mutex.
  Status status_;
};

} // namespace train
