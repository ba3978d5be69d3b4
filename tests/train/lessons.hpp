// What the tests of training learn: data that are made here, plans for them, and a small cluster.
#pragma once

#include <apps/train/csv.hpp>
#include <apps/train/group.hpp>
#include <apps/train/plan.hpp>
#include <support/results.hpp>

#include <string>
#include <vector>

namespace train::test {

using gpuactors::test::must;
using gpuactors::test::says;

/// Points around one centre for each class, far enough apart to be told from each other.
Table make_table(std::int64_t rows, std::int64_t inputs, std::int64_t classes, std::uint64_t seed);

/// Data in a cluster, and a plan that learns them with one hidden layer.
struct Lesson {
  gpuactors::Shared<gpuactors::Tensor> features;
  gpuactors::Shared<gpuactors::Tensor> labels;
  Plan plan;
};

Lesson make_lesson(gpuactors::Cluster& cluster, const Table& table, std::int64_t hidden = 32);

/// An embedded cluster with one host device.
gpuactors::Cluster embed();

/// Half a device.
gpuactors::Options half();

/// All bytes of a file.
std::string read_text(const std::filesystem::path& path);

/// Workers with a quarter of a device each, unless it is changed.
GroupSpec group_of(std::size_t workers, const Plan& plan, std::uint64_t epochs);

/// The largest relative difference of the first `steps` losses.
double worst_difference(const std::vector<double>& actual, const std::vector<double>& expected, std::size_t steps);

/// Ends the member of that rank after the first epoch.
Watcher killer(gpuactors::Cluster& cluster, std::size_t rank);

} // namespace train::test
