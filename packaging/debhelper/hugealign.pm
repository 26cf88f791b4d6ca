# dh $@ --with hugealign: every gcc and clang of the build links by hugealign, and dh_hugealign judges the packages.
use strict;
use warnings;
use Debian::Debhelper::Dh_Lib;

# Compilers look for their linker in COMPILER_PATH before their own directories.  dh passes its environment on.
open(my $answer, '-|', 'hugealign', 'path', 'shims') or error("hugealign: $!");
chomp(my $shims = <$answer> // '');
close($answer) and $shims ne '' or error('hugealign path shims failed');
my $others = $ENV{COMPILER_PATH} // '';
$ENV{COMPILER_PATH} = $others eq '' ? $shims : "$shims:$others" unless ":$others:" =~ /:\Q$shims\E:/;

insert_before('dh_makeshlibs', 'dh_hugealign'); # after dh_dwz and dh_strip, which write the files again

1;
