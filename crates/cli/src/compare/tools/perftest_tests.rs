//! Parsing of output of perftest 4.5.

use super::*;

const LATENCY: &str = "\
---------------------------------------------------------------------------------------
 remote address: LID 0x01 QPN 0x2bc3d PSN 0x78ded0
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       20000          0.47           3101.22      0.57     \t       0.92        \t19.24  \t\t1.38    \t\t17.68  
---------------------------------------------------------------------------------------
";

const ALL_RESULTS: &str = "\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
#, usec
1, 0.0704615
2, 0.0976538
3, 0.84
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 8       5          0.07           2.12         0.10     \t       0.84        \t0.00   \t\t2.12    \t\t2.12   
";

const BANDWIDTH: &str = "\
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:127:00:00:01
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      20000            319.91             141.53 \t\t   0.269941
---------------------------------------------------------------------------------------
";

#[test]
fn the_typical_latency_or_the_median_of_all() {
    assert_eq!(parse(LATENCY, Quantity::Latency), Ok(570.0));
    assert_eq!(parse(ALL_RESULTS, Quantity::Latency).map(f64::round), Ok(98.0));
}

#[test]
fn mean_bandwidth_and_rate() {
    assert_eq!(parse(BANDWIDTH, Quantity::Bandwidth), Ok(141.53e9 / 8.0));
    assert_eq!(parse(BANDWIDTH, Quantity::Rate), Ok(269_941.0));
}

#[test]
fn output_without_a_result_is_an_error() {
    let why = parse("Couldn't connect to 127.0.0.1:18515\n", Quantity::Latency).unwrap_err();
    assert!(why.contains("Couldn't connect"), "{why}");
    assert!(parse(BANDWIDTH, Quantity::Latency).is_err());
    assert!(parse("", Quantity::Rate).is_err());
}

#[test]
fn atomics_have_no_size() {
    use crate::compare::measure::Contender;
    let measure = |quantity, verb| Measure::new(Contender::Perftest(MessagePath::Host), quantity, verb, 8);
    assert_eq!(options(&measure(Quantity::Latency, TestVerb::FetchAdd), 1000), "-F -H -n 1000");
    assert_eq!(
        options(&measure(Quantity::Rate, TestVerb::Send), 1000),
        "-F -N --report_gbits -n 1024 -s 8 -q 1 -t 128"
    );
    let many = Measure { qps: 10, ..measure(Quantity::Rate, TestVerb::Send) };
    assert_eq!(options(&many, 1000), "-F -N --report_gbits -n 112 -s 8 -q 10 -t 16");
}
