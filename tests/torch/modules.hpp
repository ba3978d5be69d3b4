// TorchScript files for tests: what each computes is in its source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace torchtest {

/// Returns the names of all modules.
std::vector<std::string> module_names();

/// Returns the bytes of a module's file, as torch.jit.save writes it.
std::string module_file(const std::string& name);

/// Runs a module by libtorch alone, without a lease, with one input of this shape; returns the first of its answers.
std::vector<float> run_directly(const std::string& name, const std::vector<float>& numbers,
                                const std::vector<std::int64_t>& shape);

/// Returns a tensor of so many bytes, made on the calling thread; it lives as long as the result.
std::shared_ptr<void> make_tensor(std::size_t bytes);

/// Returns the address of its first byte.
void* data_of(const std::shared_ptr<void>& tensor);

/// Returns how many threads libtorch's loops use on the calling thread.
int threads_here();

} // namespace torchtest
