//! Ranges, and PUTs that the server's program does not see, for tasks: a server in this process, and a small market.
//!
//! `cargo run --release -p longarm-kv --example task_ways`

use std::time::Instant;

use futures_util::future::try_join_all;
use longarm_kv::{AsyncKvTable, GetWay, KvError, KvLayout, KvOptions, KvServer, PutWay, TableOptions};

const SELLERS: u32 = 20;
const OFFERS: u32 = 50;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = KvServer::builder()
        .table("offers", TableOptions { layout: KvLayout::Tree, ..TableOptions::default() })
        .table("prices", TableOptions { writable: true, ..TableOptions::default() })
        .bind("127.0.0.1:0")?;
    let address = server.local_addr().to_string();
    // The client measures who searches faster, itself or the server.
    let choosing = KvOptions { get: GetWay::Choose, ..KvOptions::default() };
    let offers = AsyncKvTable::open(&address, "offers", choosing).await?;
    let alone = KvOptions { put: PutWay::OneSided, ..KvOptions::default() };
    let prices = AsyncKvTable::open(&address, "prices", alone).await?;

    let began = Instant::now();
    try_join_all((0..SELLERS).map(|seller| sell(&offers, &prices, seller))).await?;
    let of_seven = offers.range("seller 07/".."seller 08/", 1000).await?;
    let last = of_seven.last().map(|item| String::from_utf8_lossy(&item.key).into_owned());
    println!("seller 7 has {} offers, the last is {:?}", of_seven.len(), last.unwrap_or_default());
    println!("{SELLERS} sellers took {:.2?}", began.elapsed());
    println!("offers: {:?}", offers.stats());
    println!("prices: {:?}", prices.stats());
    offers.close().await?;
    prices.close().await?;
    Ok(())
}

/// Makes offers, and changes one price again and again: all but the first of these PUTs are WRITEs alone.
async fn sell(offers: &AsyncKvTable, prices: &AsyncKvTable, seller: u32) -> Result<(), KvError> {
    let price = format!("price of seller {seller:02}");
    for offer in 0..OFFERS {
        let key = format!("seller {seller:02}/offer {offer:03}");
        offers.put(key.as_bytes(), b"a cart").await?;
        prices.put(price.as_bytes(), &offer.to_le_bytes()).await?;
    }
    let found = prices.get(price.as_bytes()).await?;
    assert_eq!(found.map(|value| value.bytes), Some((OFFERS - 1).to_le_bytes().to_vec()));
    Ok(())
}
