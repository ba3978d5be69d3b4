// The list of programs.
#include "programs.hpp"

namespace tour {

const std::vector<Program>& programs() {
  static const std::vector<Program> list{
      {"T1", "multiply matrices, one whole device each", run_t1},
      {"T2", "multiply matrices, two at once on halves of one device", run_t2},
      {"T3", "train a linear layer on a whole device", run_t3},
      {"T4", "an actor and a task on two devices", run_t4},
      {"T5", "four tasks share one device", run_t5},
      {"T6", "three halves on two devices", run_t6},
      {"T7", "four tasks of 0.3: the fourth waits", run_t7},
      {"T8", "inference services with a memory quota", run_t8},
      {"T9", "a task that never frees its memory, 100 times", run_t9},
      {"T10", "a task for one type of device in a mixed cluster", run_t10},
      {"T11", "one neuron core each", run_t11},
      {"T12", "a node that is shown some of a machine's GPUs", run_t12},
      {"T13", "more devices offered than there are", run_t13},
      {"T14", "a kernel of the user's own", run_t14},
      {"T15", "x * transpose(x), transfer and computation apart", run_t15},
      {"T16", "train 10 -> 2 with Adam, 1000 steps", run_t16},
      {"T17", "train 10 -> 1 with SGD, 1000 steps", run_t17},
      {"T18", "the same multiplication on two kinds of device", run_t18},
  };
  return list;
}

} // namespace tour
