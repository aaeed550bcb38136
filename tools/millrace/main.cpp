#include "cli/program.hpp"

int main(int argc, char** argv) { return millrace::cli::run_program(argc, argv); }
