// MLIR's optimizer with all of its dialects and passes, as `mlir-opt`.

#include "mlir/IR/Dialect.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int count, char **words) {
    mlir::registerAllPasses();
    mlir::DialectRegistry registry;
    mlir::registerAllDialects(registry);
    mlir::registerAllExtensions(registry);
    return mlir::asMainReturnCode(mlir::MlirOptMain(count, words, "lowering", registry));
}
