// The device that models are tested on: a host device, or what GPUACTORS_TEST_DEVICES names, such as cuda.
#pragma once

#include <gpuactors/device/context.hpp>

#include <filesystem>
#include <memory>
#include <string>

namespace llm::test {

/// A whole device, with 256 MiB of its memory.
std::unique_ptr<gpuactors::Context> open_device();

/// The folder of a model of tests/data/llm, or of another folder that LLM_TEST_DATA names.
std::filesystem::path folder_of(const std::string& model);

/// The bytes of a file.
std::string read(const std::filesystem::path& path);

/// Shows the kernels to the CUDA driver for tests, if that is the driver that was loaded.
void show_kernels_to_fake_driver();

} // namespace llm::test
